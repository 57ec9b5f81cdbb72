/** Calls that are done again without their function: what they see, and when the function is asked. */
import { assertEquals } from "@std/assert";
import { noGrad, type Tensor } from "../../../mod.ts";
import { compileRepeatable } from "../../../tensor/compile/compile.ts";
import { testOnBackends } from "../../opencl.ts";
import { leaf } from "../numbers.ts";
import { stored } from "./outcomes.ts";

testOnBackends("RepeatedCall sees its arguments and assigns, without its function", () => {
  return noGrad(() => {
    let runs = 0;
    const weight = stored(2), sum = stored(0);
    const step = compileRepeatable((x: Tensor, held: { sum: Tensor }) => {
      runs++;
      held.sum.assign(held.sum.add(x.mul(weight)));
      return [held.sum.mul(10), x];
    });
    for (const call of [step.call, step.again, step.again]) {
      const x = stored(1), [tenfold, same] = call(x, { sum });
      assertEquals([tenfold!.itemSync(), same === x], [sum.itemSync() * 10, true]);
    }
    assertEquals([sum.itemSync(), runs], [6, 1]);
    weight.assign(stored(5));
    step.again(stored(1), { sum });
    assertEquals([sum.itemSync(), runs], [11, 1], "the value of a tensor from elsewhere");
    const other = stored(100);
    step.again(stored(1), { sum: other });
    assertEquals([sum.itemSync(), other.itemSync(), runs], [11, 105, 1], "another argument");
  });
});

testOnBackends("RepeatedCall is none where arguments, modes or effects are others", () => {
  let runs = 0;
  const step = compileRepeatable((x: Tensor) => {
    runs++;
    return x.mul(2).sum();
  });
  const x = stored(1, 2);
  noGrad(() => step.again(x));
  assertEquals(noGrad(() => step.again(x)).itemSync(), 6);
  assertEquals(runs, 1, "the first is a call");
  assertEquals(noGrad(() => step.again(stored(1, 2, 3))).itemSync(), 12);
  assertEquals(runs, 2, "another shape");
  assertEquals(step.again(stored(1, 2, 3)).itemSync(), 12);
  assertEquals(runs, 3, "another mode");
  const w = leaf(stored(3));
  const learn = compileRepeatable((x: Tensor) => {
    runs++;
    w.mul(x).sum().backward();
  });
  for (const due of [1, 2, 3]) {
    learn.again(stored(1));
    assertEquals(w.grad!.itemSync(), due);
  }
  assertEquals(runs, 6, "gradients");
});
