import { assertEquals } from "@std/assert";
import { localImport, snippetsOf } from "./snippets.ts";

Deno.test("examples are found in doc comments and pages, with their lines", () => {
  const module = [
    "/** One line. */",
    "export class A {",
    "  /**",
    "   * A method.",
    "   *",
    "   * ```ts",
    "   * if (x) {",
    "   *   y();",
    "   * }",
    "   * ```",
    "   */",
    "  m(): void {} // ```ts",
    "}",
    "/**",
    " * ```ts ignore",
    " * never();",
    " * ```",
    " * ```ts",
    " * z();",
    " * ```",
    " */",
  ].join("\n");
  assertEquals(snippetsOf("a.ts", module), [
    { place: "a.ts:7", code: "if (x) {\n  y();\n}\n" },
    { place: "a.ts:19", code: "z();\n" },
  ]);
  const page = "# A\n```sh\nls\n```\n```ts\na();\n```\n\n```diff\n+ ```ts\n```\n```ts\nb();\n```\n";
  assertEquals(snippetsOf("a.md", page), [
    { place: "a.md:6", code: "a();\n" },
    { place: "a.md:13", code: "b();\n" },
  ]);
});

Deno.test("an example's imports become statements of a function", () => {
  const module = `await import("node:path")`;
  assertEquals(
    [
      'import { join, sep as s } from "node:path";',
      'import * as path from "node:path";',
      'import {\n  type ParsedPath,\n  join,\n} from "node:path";',
      'import type { ParsedPath } from "node:path";',
      'import "node:path";',
    ].map((statement) => localImport(statement).replace(/\s+/g, " ")),
    [
      `const { join, sep: s } = ${module};`,
      `const path = ${module};`,
      `const { ParsedPath, join, } = ${module};`,
      "",
      `${module};`,
    ],
  );
});
