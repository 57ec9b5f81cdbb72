import { assertEquals, assertThrows } from "@std/assert";
import { FileFormatError } from "../../../../tensor/io/mod.ts";
import { Tokenizer } from "../../../../tensor/models/mod.ts";

const files = (model: Record<string, unknown>) => ({
  tokenizer: {
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: { type: "Fuse" },
    model: { type: "BPE", merges: [], ...model },
  },
  config: {},
});

Deno.test("Tokenizer leaves letters out that no token has, where none stands for the unknown", () => {
  const tokenizer = new Tokenizer(files({ vocab: { a: 0, b: 1 } }));
  assertEquals(tokenizer.encode("axb"), [0, 1]);
});

Deno.test("Tokenizer names what is wrong with its files", () => {
  const refused = (model: Record<string, unknown>, message: string) =>
    assertThrows(() => new Tokenizer(files(model)), FileFormatError, message);
  refused({ vocab: { a: "x" } }, '"a" has the id "x"');
  refused({ vocab: { a: -1 } }, '"a" has the id -1');
  refused({ vocab: null }, "no vocabulary");
  refused({ vocab: { a: 0 }, merges: 5 }, "merges");
  const { tokenizer, config } = files({ vocab: { a: 0 } });
  const split = { type: "Split", pattern: { String: "b" }, behavior: 5 };
  const odd = new Tokenizer({ tokenizer: { ...tokenizer, pre_tokenizer: split }, config });
  assertThrows(() => odd.encode("aba"), FileFormatError, "Cannot read the tokenizer");
});
