import { assertEquals, assertThrows } from "@std/assert";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { parseJson, parseJsonObject } from "../../../../tensor/io/core/json.ts";

const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);

Deno.test("parseJson refuses what is nested so deep that it could not be walked", () => {
  assertEquals(parseJson(new TextEncoder().encode('{"a":[1,null]}'), "It"), { a: [1, null] });
  parseJson(nested(64), "It");
  for (const depth of [65, 5000]) {
    assertThrows(() => parseJson(nested(depth), "It"), FileFormatError, "It is nested deeper");
  }
  assertThrows(() => parseJson("{", "It"), FileFormatError, "It is not JSON: ");
  for (const text of ["null", "[]", "5"]) {
    assertThrows(() => parseJsonObject(text, "It"), FileFormatError, "It is not a JSON object");
  }
});
