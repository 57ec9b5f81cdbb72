"""Writes losses.json: the losses of 20 steps of PEFT's LoRA on the model "qwen2" of
../language/fixtures/architectures.json; and peft, adapters that PEFT 0.21.2 saved. Needs torch, transformers 5.24.0 and
peft: python make.py here."""
import json, os, sys
import numpy as np, torch, transformers as T, peft
sys.path.insert(0, "../language/fixtures")
src = open("../language/fixtures/make.py").read().split("base = dict(")[0]
exec(src)
f = json.load(open("../language/fixtures/architectures.json"))["qwen2"]
m = T.Qwen2ForCausalLM(T.Qwen2Config(**{k: v for k, v in f["config"].items() if k not in ("model_type", "architectures")})).eval()
with torch.no_grad():
    for k, shape in f["shapes"].items(): m.state_dict()[k].copy_(fill(k, shape))
m = peft.get_peft_model(m, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.0))
names = []
with torch.no_grad():
    for k, p in m.named_parameters():
        if "lora_" not in k: continue
        name = k.replace(".default", "")
        names.append(name)
        p.copy_(fill(name, p.shape) if "lora_A" in k else torch.zeros_like(p))
opt = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-2)
ids = torch.tensor([f["ids"]]); losses = []
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(m(ids).logits[0, :-1], ids[0, 1:])
    opt.zero_grad(); loss.backward(); opt.step(); losses.append(loss.item())
json.dump(dict(names=names, losses=losses), open("losses.json", "w"))
print(losses)


# Adapters as PEFT saves them, and what the model computes with them: of one kind, and of all kinds.
configs = {
    "plain": peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]),
    "odd": peft.LoraConfig(r=3, lora_alpha=6, target_modules=r".*\.(k_proj|o_proj|up_proj)", exclude_modules=["model.layers.0.mlp.up_proj"], rank_pattern={"o_proj": 5}, alpha_pattern={"layers.1.self_attn.o_proj": 7, "^model.layers.1.mlp.up_proj": 2}, use_rslora=True),
}
logits = {}
for name, config in configs.items():
    m = T.Qwen2ForCausalLM(T.Qwen2Config(**{k: v for k, v in f["config"].items() if k not in ("model_type", "architectures")})).eval()
    with torch.no_grad():
        for k, shape in f["shapes"].items(): m.state_dict()[k].copy_(fill(k, shape))
    m = peft.get_peft_model(m, config)
    with torch.no_grad():
        for k, p in m.named_parameters():
            if "lora_" in k: p.copy_(fill(k, p.shape))
        logits[name] = [float(f"{x:.6g}") for x in m(ids).logits[0, -2:].flatten().tolist()]
    m.save_pretrained(f"peft/{name}")
    os.remove(f"peft/{name}/README.md")
json.dump(logits, open("peft/logits.json", "w"), separators=(",", ":"))
