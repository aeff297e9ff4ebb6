#!/usr/bin/env bash
# Finding:  LoRA with target_modules= of the experts' layers, or "all-linear", leaves out the experts of Qwen2-MoE,
#           Phi-MoE and Jamba in transformers 5.24.0 with peft 0.21.2, and trains the rest, where 4.53.2 with 0.16.0
#           trains both. An adapter of Qwen2-MoE or Phi-MoE that was trained in the old loads in the new without its
#           experts, and nothing says so: the network is another. For Qwen3-MoE both work, and the logits are equal.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 peft==0.21.2 accelerate==1.15.0 requests==2.34.2
# Topic:    silent changes in new releases
# Source:   in transformers 5 the experts are one weight of three dimensions and no nn.Linear;
#           peft/utils/transformers_weight_conversion.py maps the old names onto it for the model types of
#           _MODEL_TO_CONVERSION_PATTERN, to which it adds "mixtral" and not "qwen2_moe"; "phimoe" and "jamba" are not
#           among them. Names that match no layer, as long as another does, and keys of an adapter that have no place
#           are ignored.
# Guess:    the named layers are trained, or an error says that they are missing (confidence 85 %).
# Hurts:    fine-tuning of networks with experts: three quarters of the weights stay as they are, with a loss that falls
#           nevertheless; and adapters of last year, whose scores do not come back.
# Here:     no workload is a text, and no network has adapters
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old transformers==4.53.2 peft==0.16.0 \
    tokenizers==0.21.2 huggingface-hub==0.33.4 accelerate==1.9.0
cat > experts.py <<'P'
import logging
import sys
import warnings

is_old = sys.argv[1] != "new"
if is_old:
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=60, hidden_size=32, intermediate_size=48, moe_intermediate_size=24, num_hidden_layers=2,
             shared_expert_intermediate_size=24, num_attention_heads=2, num_key_value_heads=2, num_experts_per_tok=2,
             pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.2)
LLAMA = ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]
TYPES = {"qwen3_moe": LLAMA, "qwen2_moe": LLAMA, "phimoe": ["q_proj", "v_proj", "w1", "w2", "w3"], "jamba": LLAMA}
JAMBA = dict(attn_layer_offset=0, attn_layer_period=2, expert_layer_period=1, expert_layer_offset=0,
             use_mamba_kernels=False, mamba_dt_rank=4)
TEXT = torch.arange(3, 19)[None]


def make(model_type):
    torch.manual_seed(0)
    experts = {"num_local_experts" if model_type == "phimoe" else "num_experts": 4}
    settings = {**SIZES, **experts, **(JAMBA if model_type == "jamba" else {})}
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **settings)).eval()


def count_trained_experts(model_type, layers):
    """Return how many weights of LoRA belong to experts, other than shared ones."""
    adapted = get_peft_model(make(model_type), LoraConfig(r=2, target_modules=layers))
    return sum(weight.numel() for name, weight in adapted.named_parameters()
               if weight.requires_grad and "expert" in name and "shared" not in name)


@torch.no_grad()
def compute(model_type, layers):
    """Save an adapter in the old release; load it in the new one and return how far the logits are from the old."""
    if is_old:
        model = make(model_type)
        model.save_pretrained(f"{model_type}_base")
        adapted = get_peft_model(model, LoraConfig(r=2, target_modules=layers, init_lora_weights=False)).eval()
        adapted.save_pretrained(f"{model_type}_adapter")
        torch.save(adapted(TEXT).logits, f"{model_type}.pt")
        return 0.0
    base = AutoModelForCausalLM.from_pretrained(f"{model_type}_base", dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, f"{model_type}_adapter").eval()
    return (adapted(TEXT).logits - torch.load(f"{model_type}.pt")).abs().max().item()


named = {model_type: count_trained_experts(model_type, layers) for model_type, layers in TYPES.items()}
linear = {model_type: count_trained_experts(model_type, "all-linear") for model_type in TYPES}
far = {model_type: compute(model_type, layers) for model_type, layers in TYPES.items() if model_type != "jamba"}
print(f"transformers {transformers.__version__}, peft {peft.__version__}: weights of LoRA in experts {named}, "
      f"all-linear {linear}" + ("" if is_old else "; logits of old adapters differ by " +
                                ", ".join(f"{name} {value:.2g}" for name, value in far.items())))
assert named["qwen3_moe"] > 0 and linear["qwen3_moe"] > 0 and far["qwen3_moe"] < 1e-3
for model_type in ("qwen2_moe", "phimoe", "jamba"):
    assert (named[model_type] > 0) == (linear[model_type] > 0) == is_old
assert is_old or min(far["qwen2_moe"], far["phimoe"]) > 0.5
P
"$python" experts.py old 2> /dev/null
"$python" experts.py new 2> /dev/null
