"""Writes encoders.json: small encoders with weights by the formula of ../language/fixtures/make.py, and what
transformers 5.24.0 computes of them. Needs torch, transformers and sentence-transformers: in this folder,
deno eval 'import { tokenizer } from "../small_models.ts"; console.log(JSON.stringify(tokenizer))' | python make.py"""
import json, sys
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
exec(open("../language/fixtures/make.py").read().split("base = dict(")[0])
base = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32)
models = {
    "bert": T.BertConfig(**base),
    "roberta": T.RobertaConfig(**base, pad_token_id=1, type_vocab_size=1),
    "camembert": T.CamembertConfig(**base, pad_token_id=1),
    "electra": T.ElectraConfig(**base, embedding_size=8),
    "albert": T.AlbertConfig(**base, embedding_size=8),
    "mpnet": T.MPNetConfig(**base, pad_token_id=1),
    "nomic_bert": T.NomicBertConfig(**base),
    "modernbert": T.ModernBertConfig(**{**base, "num_hidden_layers": 3}, local_attention=6, global_attn_every_n_layers=2, pad_token_id=2),
    "gemma3, ahead": T.Gemma3TextConfig(**base, num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=8, sliding_window=8, layer_types=["sliding_attention", "full_attention"], use_bidirectional_attention=True, rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1000.0), sliding_attention=dict(rope_type="default", rope_theta=100.0))),
    "distilbert": T.DistilBertConfig(vocab_size=48, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=32),
}
out = {}
for name, config in models.items():
    m = T.AutoModel.from_config(config, attn_implementation="eager").eval()
    with tempfile.TemporaryDirectory() as folder:
        # Files have other names than some modules.
        m.save_pretrained(folder)
        filed = {k: fill(k, v.shape) for k, v in load_file(f"{folder}/model.safetensors").items() if "pooler" not in k}
        save_file(filed, f"{folder}/model.safetensors", {"format": "pt"})
        m = T.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    texts = [[5, 7, 40, 3, 9, 30], [22, 11], [4 + 7 * k % 40 for k in range(26)]]
    with torch.no_grad(): vectors = [[float(f"{x:.6g}") for x in m(torch.tensor([ids])).last_hidden_state[0].mean(0).tolist()] for ids in texts]
    drop = {"id2label", "label2id", "transformers_version", "_name_or_path"}
    keep = {k: v for k, v in json.loads(config.to_json_string(use_diff=False)).items() if k not in drop and v is not None and v != []}
    out[name] = dict(config=keep, shapes={k: list(v.shape) for k, v in filed.items()}, texts=texts, vectors=vectors)
    if name == "bert": bert = m
json.dump(out, open("encoders.json", "w"), separators=(",", ":"))

# What sentence-transformers 6.2.0 makes of the first, by all its poolings, two layers behind them, and a prompt.
words = {k: v for k, v in json.loads(sys.stdin.read()).items()}
with tempfile.TemporaryDirectory() as folder:
    bert.save_pretrained(f"{folder}/bert")
    json.dump(words, open(f"{folder}/tokenizer.json", "w"))
    T.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", pad_token="<pad>", model_max_length=12).save_pretrained(f"{folder}/bert")
    modes = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
    dense = [Dense(6 * 16, 8), Dense(8, 5, bias=False, activation_function=torch.nn.Identity())]
    model = SentenceTransformer(modules=[Transformer(f"{folder}/bert"), Pooling(16, modes), *dense, Normalize()], device="cpu", prompts={"query": "ab: "}, default_prompt_name="query")
    for k, layer in enumerate(dense):
        for name, value in layer.named_parameters(): value.data.copy_(fill(f"{k}.{name}", value.shape))
    model.save(f"{folder}/all")
    read = lambda name: json.load(open(f"{folder}/all/{name}"))
    files = {name: read(name) for name in ["modules.json", "1_Pooling/config.json", "2_Dense/config.json", "3_Dense/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"]}
    texts = ["abc", "a longer text, of which not all is read.", "hi"]
    json.dump(dict(files=files, texts=texts, vectors=model.encode(texts).tolist()), open("sentences.json", "w"), separators=(",", ":"))
