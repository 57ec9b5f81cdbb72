import { assertEquals } from "@std/assert";
import { phraseOf, spoken } from "../../../ffi/host/wording.ts";

Deno.test("phraseOf computes what is no verb", () => {
  assertEquals(["add", "svd", "make a Linear"].map(phraseOf), [
    "add",
    "compute svd",
    "make a Linear",
  ]);
});

Deno.test("spoken messages of nouns are sentences", () => {
  const rows: [message: string, operation: string, read: string][] = [
    ["Cannot add tensors of two devices", "add", "Cannot add tensors of two devices"],
    ["Cannot cdist tensors of two", "cdist", "Cannot compute cdist of tensors of two"],
    ["Cannot svd of int32: cast it", "svd", "Cannot compute svd of int32: cast it"],
    ["Cannot vmap over batches of 2", "vmap", "Cannot compute vmap over batches of 2"],
    ["Cannot take the sum of bool", "take the sum", "Cannot take the sum of bool"],
    ["Cannot run Linear on a", "Linear", "Cannot run Linear on a"],
  ];
  for (const [message, operation, read] of rows) assertEquals(spoken(message, operation), read);
});
