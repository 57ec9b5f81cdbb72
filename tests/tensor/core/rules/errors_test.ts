import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { DeviceError, DTypeError, einsum, nn, ShapeError, Tensor } from "../../../../mod.ts";
import { testOnBackends, testOpenCL } from "../../../opencl.ts";

const thrownBy = (run: () => unknown): unknown => {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("Nothing was thrown");
};

/** Calls that do not fit, with the operation, the shapes and the axis of their error. */
const misfits: [run: () => unknown, name: string, shapes: number[][], axis?: number][] = [
  [() => Tensor.ones([2, 3]).add(Tensor.ones([4])), "add", [[2, 3], [4]]],
  [() => Tensor.ones([2, 3]).matmul(Tensor.ones([4, 2])), "matmul", [[2, 3], [4, 2]]],
  [() => Tensor.concat([Tensor.ones([2]), Tensor.ones([2, 2])], 0), "concat", [[2], [2, 2]], 0],
  [() => Tensor.ones([2, 3]).sum(5), "sum", [[2, 3]], 5],
  [() => Tensor.ones([0, 3]).max(0), "max", [[0, 3]]],
  [() => Tensor.ones([]).softmax(-2), "softmax", [[]], -2],
  [() => Tensor.ones([2, 3]).reshape([4]), "reshape", [[2, 3], [4]]],
  [() => new nn.Linear(2, 3).forward(Tensor.ones([4, 5])), "Linear", [[4, 5]]],
  [() => nn.mse(Tensor.ones([2]), Tensor.ones([3])), "mse", [[2], [3]]],
  [() => Tensor.ones([2], { requiresGrad: true }).backward(), "backward", [[2]]],
  [() => einsum("ij,jk->ik", Tensor.ones([2, 3]), Tensor.ones([4, 5])), "einsum", [[2, 3], [4, 5]]],
];

testOnBackends("ShapeError says as data what its message says: operation, shapes, axis", () => {
  for (const [run, operation, shapes, axis] of misfits) {
    const error = thrownBy(run);
    assert(error instanceof ShapeError, `${operation}: ${error}`);
    assertEquals([error.operation, error.shapes, error.axis], [operation, shapes, axis]);
    for (const shape of shapes) assertStringIncludes(error.message, `[${shape.join(", ")}]`);
    assert(!/\n| {2}/.test(error.message), error.message);
  }
});

testOnBackends("ShapeError keeps its fields where a Sequential says which layer", () => {
  const model = new nn.Sequential(new nn.ReLU(), new nn.Linear(2, 3));
  const error = thrownBy(() => model.forward(Tensor.ones([4, 5])));
  assert(error instanceof ShapeError);
  assertStringIncludes(error.message, "Layer 1 (Linear): Cannot run Linear");
  assertEquals([error.operation, error.shapes], ["Linear", [[4, 5]]]);
});

testOnBackends("DTypeError says the operation and the element types", () => {
  const whole = Tensor.ones([2, 2], { dtype: "int32" }), truth = whole.gt(0);
  const cases: [run: () => unknown, name: string, dtypes: string[]][] = [
    [() => whole.matmul(Tensor.ones([2, 2])), "matmul", ["int32", "float32"]],
    [() => whole.bernoulli(), "bernoulli", ["int32"]],
    [() => truth.sub(truth), "sub", ["bool", "bool"]],
    [() => Tensor.where(whole, 1, 2), "where", ["int32"]],
  ];
  for (const [run, operation, dtypes] of cases) {
    const error = thrownBy(run);
    assert(error instanceof DTypeError, `${operation}: ${error}`);
    assertEquals([error.operation, error.dtypes], [operation, dtypes]);
  }
});

testOpenCL("DeviceError says the operation and the devices", () => {
  const a = Tensor.ones([2], { device: "cl" }), b = Tensor.ones([2], { device: "cpu" });
  for (const [name, run] of [["add", () => a.add(b)], ["assign", () => a.assign(b)]] as const) {
    const error = assertThrows(run, DeviceError, "to()");
    assertEquals(error.operation, name);
    assertEquals(new Set(error.devices), new Set([a.device, b.device]));
    assert(error instanceof TypeError);
  }
});
