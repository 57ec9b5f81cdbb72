/** Instructions that stand in comments of OpenCL C until its compiler has made PTX of it. */
import { assert, assertEquals } from "@std/assert";
import {
  hasLifted,
  LIFTED,
  liftedList,
  liftInstructions,
  OPERANDS,
  refuseInstructions,
} from "../../../../backend/opencl/codegen/units/warpgroup_helpers.ts";

const use = `{ first ${OPERANDS}, 1; second ${OPERANDS}, 2; }`;

/** PTX as the compiler makes it of a statement: the operands in their places. */
function ptxOf(statement: string): string {
  const filled = statement.replaceAll("%0", "%f7").replaceAll("%1", "%f8");
  return `.version 9.0\n.target sm_90, texmode_independent\n\t// begin inline asm\n\t${filled}\n\tret;\n`;
}

Deno.test("a list of operands that is named once stands wherever it is used", () => {
  const lifted = liftInstructions(ptxOf(`${LIFTED}${liftedList(2)}${use}`));
  assertEquals(
    lifted,
    ".version 9.0\n.target sm_90a, texmode_independent\n\t// begin inline asm\n" +
      "\t{ first {%f7,%f8}, 1; second {%f7,%f8}, 2; }\n\tret;\n",
  );
});

Deno.test("each statement has its own list, and statements without one stay", () => {
  const text = [
    `${LIFTED}${OPERANDS}={a,b}; ${use}`,
    `${LIFTED}wait 0;`,
    `${LIFTED}${OPERANDS}={c}; ${use}`,
  ];
  assertEquals(liftInstructions(text.join("\n")).split("\n"), [
    "{ first {a,b}, 1; second {a,b}, 2; }",
    "wait 0;",
    "{ first {c}, 1; second {c}, 2; }",
  ]);
});

Deno.test("a text that is to be refused has no comment in its place, and is lifted to the same", () => {
  const statement = `${LIFTED}${liftedList(2)}${use}`, refused = refuseInstructions(statement);
  assert(hasLifted(statement) && !hasLifted(refused));
  assert(!refused.includes("//"));
  assertEquals(liftInstructions(ptxOf(refused)), liftInstructions(ptxOf(statement)));
});
