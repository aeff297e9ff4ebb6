"""Three 3x3 convolutions, global average pooling, one dense layer; no BatchNorm, any input size."""
