// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** The type that two operands meet in: PyTorch's table, for every pair of types. */
import "../guarded.ts";
import { assertEquals } from "@std/assert";
import { backendOf } from "../../backend/internal.ts";
import {
  type BackendName,
  type DType,
  manager,
  realizeAll,
  Tensor,
  withDevice,
} from "../../mod.ts";
import { ignoreOn, testOnBackends } from "../opencl.ts";
import { readLines } from "./fixture.ts";

/** An operand of the table: a tensor with an axis, one without, or a number. */
interface Operand {
  readonly text: string;
  readonly dtype: DType | null;
  readonly make: () => Tensor | number;
}

function operandOf(text: string): Operand {
  const [first, second] = text.split(" ");
  if (first === "number") return { text, dtype: null, make: () => Number(second) };
  const dtype = first as DType;
  return { text, dtype, make: () => Tensor.ones(second === "scalar" ? [] : [2], { dtype }) };
}

function tableFor(backend: BackendName): { a: Operand; b: Operand; expected: DType }[] {
  if (ignoreOn(backend)) return [];
  const { dtypes } = backendOf(manager.default(backend)).capabilities;
  const files = ["promotion", "promotion_narrow"];
  return files.flatMap((file) => readLines<[pair: string, dtype: DType]>(file)).map(
    ([pair, expected]) => {
      const [a, b] = pair.split(", ");
      return { a: operandOf(a!), b: operandOf(b!), expected };
    },
  ).filter(({ a, b, expected }) =>
    [a.dtype, b.dtype, expected].every((d) => d === null || dtypes.has(d))
  );
}

/** The type of `a + b` for the operands of the table: ones, and the number. */
function sumOf(b: Operand, dtype: DType): number {
  return dtype === "bool" ? 1 : 1 + (b.dtype === null ? Number(b.text.split(" ")[1]) : 1);
}

function check(
  backend: BackendName,
  of: (a: Tensor, b: Tensor | number) => Tensor,
  value: (b: Operand, dtype: DType) => number,
  applies: (a: Operand, b: Operand) => boolean = () => true,
): void {
  withDevice(backend, () => {
    const rows = tableFor(backend).filter(({ a, b }) => applies(a, b))
      .map((row) => ({ ...row, out: of(row.a.make() as Tensor, row.b.make()) }));
    // On a device every pair costs a run of the compiler: some answer for all.
    const read = (k: number): boolean => backend === "cpu" || k % 8 === 0;
    realizeAll(rows.map((row) => row.out).filter((_, k) => read(k)));
    const told = rows.map(({ a, b, out }, k) => [
      `${a.text}, ${b.text}`,
      out.dtype,
      read(k) ? first(out) : null,
    ]);
    assertEquals(
      told,
      rows.map(({ a, b, expected }, k) => [
        `${a.text}, ${b.text}`,
        expected,
        read(k) ? value(b, expected) : null,
      ]),
    );
  });
}

function first(out: Tensor): number {
  return Number(out.toHostSync()[0]);
}

testOnBackends("the sum of every two types has PyTorch's type", (backend) => {
  check(backend, (a, b) => a.add(b), sumOf);
});

testOnBackends("what is selected from every two types has PyTorch's type", (backend) => {
  check(backend, (a, b) => Tensor.where(Tensor.ones([2]).ne(0), a, b), () => 1);
});

testOnBackends("two tensors joined have PyTorch's type", (backend) => {
  const joins = (a: Operand, b: Operand): boolean => /tensor/.test(a.text) && /tensor/.test(b.text);
  check(backend, (a, b) => Tensor.concat([a, b as Tensor]), () => 1, joins);
});

testOnBackends("comparisons meet in PyTorch's type and give truth values", () => {
  const [big, next] = [2 ** 24, 2 ** 24 + 1];
  const int = Tensor.fromHost(Int32Array.of(next)), float = Tensor.fromHost(Float32Array.of(big));
  // In float32 both are 2 ** 24.
  assertEquals(int.eq(float).toHostSync(), Uint8Array.of(1));
  assertEquals(int.eq(int.cast("int64")).toHostSync(), Uint8Array.of(1));
  assertEquals(int.eq(big).toHostSync(), Uint8Array.of(0));
  const byte = Tensor.fromHost(Uint8Array.of(200));
  assertEquals(byte.add(byte).toHostSync(), Uint8Array.of(144));
  assertEquals(byte.add(byte.cast("int32").slice(0)).dtype, "uint8");
  assertEquals(byte.lt(Tensor.fromHost(Int32Array.of(-1))).toHostSync(), Uint8Array.of(0));
});

testOnBackends("division is true division, and powers of integers stay integers", () => {
  for (const dtype of ["bool", "uint8", "int32", "int64"] satisfies DType[]) {
    const x = Tensor.ones([2], { dtype });
    assertEquals(x.div(x).dtype, "float32");
    assertEquals(x.div(2).toHostSync(), Float32Array.of(0.5, 0.5));
    assertEquals(x.sum().dtype, "int64");
    assertEquals(x.sqrt().dtype, "float32");
    if (dtype !== "bool") assertEquals(x.pow(2).dtype, dtype);
    assertEquals(x.mul(0.5).dtype, "float32");
  }
  for (const dtype of ["float16", "bfloat16"] satisfies DType[]) {
    const x = Tensor.ones([2], { dtype });
    assertEquals(x.div(3).dtype, dtype);
    assertEquals(x.add(Tensor.ones([2], { dtype: "int64" })).dtype, dtype);
    assertEquals(x.add(Tensor.ones([], { dtype: "float32" })).dtype, dtype);
    assertEquals(x.add(Tensor.ones([1], { dtype: "float32" })).dtype, "float32");
  }
});
