/** Attention of half types beside the same numbers in float32, where single keys have nearly all the weight. */
import { assert } from "@std/assert";
import { amp, manualSeed, nn, Tensor } from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";
import { leaf, numbersOf } from "../../numbers.ts";

const [queries, keys, features, values] = [17, 5, 64, 12];

/** The largest difference, as a share of the largest number. */
function apart(found: readonly number[], wanted: readonly number[]): number {
  const most = wanted.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  return found.reduce((a, v, k) => Math.max(a, Math.abs(v - wanted[k]!)), 0) / most;
}

testOnBackends("attention of half types has float32's scores, a half's digits", (backend) => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    // PoCL takes long to build its kernels, which differ in how they load and store alone.
    if (backend === "cl" && dtype === "float16") continue;
    for (const [lead, hasMask, dropout] of [[[1], true, 0], [[2, 2], false, 0.3]] as const) {
      manualSeed(4);
      const draw = (...shape: number[]): Tensor =>
        Tensor.randn([...lead, ...shape]).cast(dtype).realize();
      const inputs = [draw(queries, features).mul(10).realize(), draw(keys, features)];
      inputs.push(draw(keys, values));
      const mask = draw(queries, keys), gradient = draw(queries, values);
      const run = (type: "float16" | "bfloat16" | "float32"): number[][] => {
        manualSeed(7);
        const given = inputs.map((x) => leaf(x.cast(type).detach().clone()));
        const [q, k, v] = given as [Tensor, Tensor, Tensor];
        const options = { scale: 1, dropout, ...hasMask && { mask: mask.cast(type) } };
        const y = nn.scaledDotProductAttention(q, k, v, options);
        assert(y.dtype === type, `the result is ${y.dtype}`);
        y.backward(gradient.cast(type));
        return [y.detach(), ...given.map((x) => x.grad!)].map((t) => numbersOf(t.cast("float32")));
      };
      const [found, wanted] = [run(dtype), run("float32")];
      const limit = dtype === "float16" ? 2e-3 : 1.6e-2;
      for (const [k, part] of ["value", "query", "key", "values"].entries()) {
        const error = apart(found[k]!, wanted[k]!);
        assert(error < limit, `${part} of ${dtype}, mask ${hasMask}: off by ${error}`);
      }
    }
  }
  // Autocast asks for the same.
  const x = Tensor.randn([2, 5, 8]);
  const y = amp.autocast("bfloat16", () => nn.scaledDotProductAttention(x, x, x));
  assert(y.dtype === "bfloat16");
});
