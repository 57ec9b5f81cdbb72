/** Kernels of random graphs build on every kind of device: `deno task fuzz` tries more of them. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { isPoCL } from "../opencl.ts";
import { describe } from "./fuzz.ts";
import { buildRandomTexts, buildTexts, inWords } from "./texts.ts";
import { withoutInstructions } from "./without_instructions.ts";

Deno.test({
  name: "every text of random graphs builds, for GPUs and CPUs of every kind",
  // What stands for instructions of other devices is written for clang.
  ignore: !isPoCL,
  fn() {
    const { built, refused } = buildRandomTexts(60, 3);
    assertEquals(refused && `${inWords(refused)}\n${describe(refused.from.graph)}`, null);
    assert(built > 300, `${built} texts`);
  },
});

Deno.test("the text of truth values that lie side by side builds", { ignore: !isPoCL }, () => {
  const steps = ["ne", "realize", "sum"].map((op) =>
    ({ op, of: [0, 0], numbers: [2, 0, 0] }) as const
  );
  const graph = { shapes: [[64, 64]], most: 1e4, dtype: "int32", steps, derivatives: 1 } as const;
  const { refused } = buildTexts([{ graph, device: "GPU with matrix units", isCompiled: false }]);
  assertEquals(refused && inWords(refused), null);
});

Deno.test("withoutInstructions keeps what an instruction reads, checks its size, and sets what it gives", () => {
  const text = `asm volatile("a (%0), %1;" \\\n  : "=r"(x) : "l"(f("(", y)) : "memory"); z();`;
  assertEquals(
    withoutInstructions(text),
    "do { (void)sizeof(char[sizeof(x) == 4 ? 1 : -1]); " +
      '(void)sizeof(char[sizeof(f("(", y)) == 8 ? 1 : -1]); x = 0; (void)(f("(", y)); } while (0); z();',
  );
  assertThrows(() => withoutInstructions('asm("a"'), Error, "does not end");
});
