import { assertEquals, assertThrows } from "@std/assert";
import { ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

const shares = [0, 0.1, 0.25, 0.5, 0.75, 0.99, 1];
const ways = ["linear", "lower", "higher", "midpoint", "nearest"] as const;

testOnBackends("quantile takes shares from a tensor as from a list", async () => {
  const data = Tensor.fromHost([[3, 1, 4, 1, 5], [9, -2, 6, Infinity, NaN], [7, 7, 8, 2, 0]]);
  const axes = [undefined, 0, 1], close = { equalNan: true, rtol: 1e-6 };
  for (const [k, interpolation] of ways.entries()) {
    const axis = axes[k % 3], options = { interpolation, keepDims: k % 2 === 0 };
    const [x, y] = [data.detach(), data.detach()];
    x.requiresGrad = y.requiresGrad = true;
    const wanted = x.quantile(shares, axis, options);
    const found = y.quantile(Tensor.fromHost(shares), axis, options);
    assertEquals(found.shape, wanted.shape);
    const what = `${interpolation}, axis ${axis}: ${found} for ${wanted}`;
    assertEquals(await found.allClose(wanted, close), true, what);
    wanted.nanToNum({ posinf: 0 }).sum().backward();
    found.nanToNum({ posinf: 0 }).sum().backward();
    assertEquals(await y.grad!.nanToNum().allClose(x.grad!.nanToNum(), close), true, what);
  }
});

testOnBackends("quantile of one share in a tensor has no axis for it", async () => {
  const x = Tensor.arange(5, { dtype: "float32" });
  const half = x.quantile(Tensor.fromHost(0.5));
  assertEquals([half.shape, await half.item()], [[], 2]);
  const outside = Tensor.fromHost([-0.5, 1.5, NaN]);
  assertEquals(await x.quantile(outside).toNumbers(), [NaN, NaN, NaN]);
  assertThrows(() => x.quantile(Tensor.ones([1, 1])), ShapeError, "a vector of some");
});
