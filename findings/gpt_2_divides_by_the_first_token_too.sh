#!/usr/bin/env bash
# Finding:  For GPT2LMHeadModel, BertLMHeadModel and OpenAIGPTLMHeadModel, the Trainer of transformers divides the loss
#           of texts of n tokens by n and not by the n - 1 that are predicted: of texts of 8 tokens, training loss,
#           gradient and eval_loss are 7/8 of those of the same network called alone. For LlamaForCausalLM and
#           OPTForCausalLM they are equal.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0
# Topic:    statistics and metrics
# Source:   transformers/trainer.py leaves the first label out if loss_type, which comes from the name of the class, is
#           one of a causal model; it is None for LMHeadModel, and the loss then falls back to that of causal models.
# Guess:    eval_loss of one batch is the loss of the network (confidence 90 %).
# Hurts:    perplexities of short texts: 20 becomes 13.8 for 8 tokens, and GPT-2 seems better than a Llama; and learning
#           rates under SGD.
# Here:     no workload is a text; a program's loss is taken as it is reported
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > divide.py <<'P'
import sys
import warnings

import torch
import transformers
from transformers import Trainer, TrainingArguments

warnings.filterwarnings("ignore")
torch.manual_seed(0)
tokens = torch.randint(2, 20, (8, 8))
rows = [{"input_ids": row, "labels": row} for row in tokens]
small = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
ends = {"bos_token_id": 1, "eos_token_id": 1}
networks = {
    "GPT2LMHeadModel": transformers.GPT2Config(
        vocab_size=20, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **ends),
    "OpenAIGPTLMHeadModel": transformers.OpenAIGPTConfig(
        vocab_size=20, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0),
    "BertLMHeadModel": transformers.BertConfig(
        intermediate_size=16, is_decoder=True, hidden_dropout_prob=0, attention_probs_dropout_prob=0, **small),
    "LlamaForCausalLM": transformers.LlamaConfig(intermediate_size=16, **small, **ends),
    "OPTForCausalLM": transformers.OPTConfig(ffn_dim=16, word_embed_proj_dim=16, dropout=0, **small, **ends),
}
found = {}
for name, config in networks.items():
    network = getattr(transformers, name)(config)
    own = network(input_ids=tokens, labels=tokens).loss
    own.backward()
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in network.parameters() if weight.grad is not None]).item()
    network.zero_grad()
    arguments = TrainingArguments(
        name, per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=1, learning_rate=0.0,
        max_grad_norm=1e9, logging_steps=1, save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True)
    trainer = Trainer(network, arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    logged = trainer.state.log_history[0]
    found[name] = [round(logged["loss"] / own.item(), 3), round(float(logged["grad_norm"]) / norm, 3),
                   round(trainer.evaluate()["eval_loss"] / own.item(), 3)]
print(f"loss, norm of the gradient and eval_loss over those of the network alone: {found}", file=sys.stderr)
sys.exit(not all(ratio == ([0.875] * 3 if "LMHead" in name else [1.0] * 3) for name, ratio in found.items()))
P
"$python" divide.py > /dev/null 2> log.txt && status=0 || status=$?
tail -1 log.txt
exit "$status"
