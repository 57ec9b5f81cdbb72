// The functions with options of the entry point of models, for `options_test.ts`.
import { nn } from "../../../mod.ts";
import { Embedder, LanguageModel, loadGguf, lora, Tokenizer } from "@netcl/netcl/models";
import { ModelBatch } from "../../../tensor/models/language/batch.ts";
import { CachedChat } from "../../../tensor/models/language/chat.ts";
import type { Call, Untyped } from "../../laws/option_rows.ts";

// Options are looked at before anything is done, so nothing behind them need be real.
const nothing: Untyped = {};
const { prototype } = LanguageModel;

/** Calls with options, by name and place of the parameter. */
export const modelCalls: Readonly<Record<string, Call>> = {
  "Batch::generate(1)": (o) => ModelBatch.prototype.generate.call(nothing, "", o),
  "Chat::send(1)": (o) => CachedChat.prototype.send.call(nothing, "", o),
  "Embedder.load(1)": (o) => Embedder.load("missing", o),
  "LanguageModel.load(1)": (o) => LanguageModel.load("missing", o),
  "LanguageModel::batch(0)": (o) => prototype.batch.call(nothing, o),
  "LanguageModel::generate(1)": (o) => prototype.generate.call(nothing, "", o),
  "LanguageModel::generateBatch(1)": (o) => prototype.generateBatch.call(nothing, [], o),
  "LanguageModel::generateIds(1)": (o) => prototype.generateIds.call(nothing, [], o),
  "LanguageModel::generateText(1)": (o) => prototype.generateText.call(prototype, "", o),
  "Tokenizer::decode(1)": (o) => Tokenizer.prototype.decode.call(nothing, [], o),
  "Tokenizer::encode(1)": (o) => Tokenizer.prototype.encode.call(nothing, "", o),
  "loadGguf(1)": (o) => loadGguf("missing", o),
  "lora(1)": (o) => lora(new nn.Linear(2, 2), { rank: 1, targets: ["weight"], ...o }),
};
