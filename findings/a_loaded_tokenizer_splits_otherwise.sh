#!/usr/bin/env bash
# Finding:  GPT2TokenizerFast, Qwen2TokenizerFast, RobertaTokenizerFast and BertTokenizerFast of transformers 5.24.0,
#           made from a tokenizer of one's own, split texts in another way once they were saved and loaded: normaliser
#           and pre-tokenizer are those of the class again, and all but the vocabulary of tokenizer.json is dropped.
#           Folders that 4.53.2 saved, and loads as they were, are read so, too: where numbers were split into digits,
#           BertTokenizerFast makes [UNK] of them. PreTrainedTokenizerFast is right in both.
# Packages: transformers==5.24.0 numpy==2.4.6 requests==2.34.2
# Topic:    silent changes in new releases
# Source:   transformers/tokenization_utils_tokenizers.py: convert_to_native_format takes vocabulary, merges and
#           post-processor from the file if the class has an __init__ of its own, and GPT2Tokenizer, BertTokenizer and
#           so on build the rest anew there. The comment says "so the reconstructed tokenizer matches the
#           tokenizer.json".
# Guess:    a tokenizer that was saved and loaded gives the same tokens (confidence 97 %).
# Hurts:    networks that were trained with a tokenizer of their own, for code, numbers or another language: each
#           program that loads them gives them tokens that they have not seen in these places, and only the scores tell.
# Here:     no workload is a text
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old transformers==4.53.2 \
    tokenizers==0.21.2 huggingface-hub==0.33.4
cat > load.py <<'P'
import logging
import sys

is_old = sys.argv[1] != "new"
if is_old:
    sys.path.insert(0, sys.argv[1])
logging.disable(logging.WARNING)
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

LINES = ["Rate 12345 for batch 6789", "Loss 0.125 after 1000 steps", "epoch 17 of 90, accuracy 76.1"] * 5
TEXT = "Loss 0.125 after 76543 Steps"
SPECIAL = {"BertTokenizerFast": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]}


def train(name):
    """Return a tokenizer of small letters that splits numbers into digits, trained on a few lines."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    if name == "BertTokenizerFast":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), digits])
        trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=SPECIAL[name])
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                      special_tokens=["<|endoftext|>", "<unk>", "<s>", "</s>", "<pad>", "<mask>"])
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


changed = {}
for name in ("GPT2TokenizerFast", "Qwen2TokenizerFast", "RobertaTokenizerFast", "BertTokenizerFast",
             "PreTrainedTokenizerFast"):
    own = train(name)
    tokenizer = getattr(transformers, name)(tokenizer_object=own)
    assert tokenizer.tokenize(TEXT) == own.encode(TEXT, add_special_tokens=False).tokens
    folder = f"{name}_{'old' if is_old else 'new'}"
    tokenizer.save_pretrained(folder)
    for saved in {folder, f"{name}_old"}:
        loaded = AutoTokenizer.from_pretrained(saved)
        changed.setdefault(name, []).append(loaded.tokenize(TEXT) != tokenizer.tokenize(TEXT))
    if name == "BertTokenizerFast":
        tokens = " ".join(loaded.tokenize(TEXT))
print(f"transformers {transformers.__version__}: loaded tokenizers that split otherwise: " +
      (", ".join(name for name, found in changed.items() if any(found)) or "none") + f"; Bert: {tokens}")
assert all(all(found) == any(found) == (not is_old and name != "PreTrainedTokenizerFast")
           for name, found in changed.items())
assert ("[UNK]" in tokens) != is_old
P
"$python" load.py old 2> /dev/null
"$python" load.py new 2> /dev/null
