"""Writes losses.json: the losses of 20 steps of PEFT's LoRA on the model "qwen2" of
../language/fixtures/architectures.json. Needs torch, transformers 5.23.0 and peft: python make.py here."""
import json, sys, importlib.util
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
