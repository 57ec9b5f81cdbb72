"""Writes encoders.json: small encoders with weights by the formula of ../language/fixtures/make.py, and what
transformers 5.23.0 computes of them. Needs torch and transformers: python make.py in this folder."""
import json
exec(open("../language/fixtures/make.py").read().split("base = dict(")[0])
base = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32)
models = {
    "bert": T.BertConfig(**base),
    "roberta": T.RobertaConfig(**base, pad_token_id=1, type_vocab_size=1),
    "distilbert": T.DistilBertConfig(vocab_size=48, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=32),
}
out = {}
for name, config in models.items():
    m = T.AutoModel.from_config(config, attn_implementation="eager").eval()
    shapes = {k: list(v.shape) for k, v in m.state_dict().items() if v.is_floating_point() and "pooler" not in k}
    with torch.no_grad():
        for k, shape in shapes.items(): m.state_dict()[k].copy_(fill(k, shape))
    texts = [[5, 7, 40, 3, 9, 30], [22, 11]]
    with torch.no_grad(): vectors = [m(torch.tensor([ids])).last_hidden_state[0].mean(0).tolist() for ids in texts]
    drop = {"id2label", "label2id", "transformers_version", "_name_or_path"}
    keep = {k: v for k, v in json.loads(config.to_json_string(use_diff=False)).items() if k not in drop and v is not None and v != []}
    out[name] = dict(config=keep, shapes=shapes, texts=texts, vectors=vectors)
json.dump(out, open("encoders.json", "w"), separators=(",", ":"))
