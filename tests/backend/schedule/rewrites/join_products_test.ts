import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { Node } from "../../../../backend/graph/node.ts";
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import { schedule } from "../../../../backend/schedule/schedule.ts";
import { joinProducts } from "../../../../backend/schedule/rewrites/join_products.ts";
import {
  device,
  einsum,
  grad,
  manualSeed,
  nn,
  noGrad,
  realizeAll,
  Tensor,
} from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";
import { apply, cpu, gpu, leaf, map, product, transposed } from "../nodes.ts";

/** The rows, columns and terms of the products of a plan. */
function productsOf(roots: readonly Node[], device = cpu): number[][] {
  return schedule(roots, { device }).kernels.flatMap(({ kernel }) => {
    const { contraction, sizes } = kernel as LoopKernel;
    if (!contraction) return [];
    const count = (loops: readonly number[]): number => loops.reduce((n, s) => n * sizes[s]!, 1);
    return [[count(contraction.m), count(contraction.n), count(contraction.k)]];
  });
}

const rowsOf = (x: Node, k: number): Node =>
  apply({ kind: "slice", starts: [4 * k, 0], steps: [1, 1] }, x, [4, x.shape[1]!]);

Deno.test("joinProducts multiplies rows by shared weights at once, where none waits for another", () => {
  const x = leaf([40, 32]), weight = leaf([48, 32]), others = leaf([10, 4, 48]);
  const steps = Array.from({ length: 10 }, (_, k) => {
    const other = apply({ kind: "slice", starts: [k, 0, 0], steps: [1, 1, 1] }, others, [1, 4, 48]);
    const added = apply({ kind: "reshape" }, other, [4, 48]);
    return map("tanh", map("add", product(rowsOf(x, k), transposed(weight)), added));
  });
  for (const device of [cpu, gpu]) assertEquals(productsOf(steps, device), [[40, 48, 32]]);
});

Deno.test("joinProducts leaves alone what waits for each other, and what is asked for itself", () => {
  const weight = leaf([32, 32]);
  let h = leaf([4, 32]);
  for (let k = 0; k < 6; k++) h = map("tanh", product(h, weight));
  assertEquals(productsOf([h]).length, 6);
  const x = leaf([40, 32]);
  assertEquals(
    productsOf(Array.from({ length: 10 }, (_, k) => product(rowsOf(x, k), weight))).length,
    10,
  );
});

Deno.test("joinProducts takes a sum of products as one with a longer sum", () => {
  const x = leaf([40, 32]), found = Array.from({ length: 10 }, () => leaf([4, 48]));
  const terms = found.map((g, k) => transposed(product(transposed(rowsOf(x, k)), map("neg", g))));
  const sum = terms.reduce((a, b) => map("add", a, b));
  for (const device of [cpu, gpu]) assertEquals(productsOf([sum], device), [[32, 48, 40]]);
});

Deno.test("joinProducts gives the very graph where there is nothing to join", () => {
  const order = [leaf([4, 8]), leaf([8, 8])];
  order.push(product(order[0]!, order[1]!));
  assert(joinProducts(order, order.slice(2)).order === order);
});

testOnBackends(
  "joinProducts takes vectors as rows, and outer products as sums of one",
  async (backend) => {
    using _ = device(backend);
    manualSeed(4);
    const x = Tensor.randn([6, 4]), w = Tensor.randn([4, 4], { requiresGrad: true });
    const each = (equation: string, weight: Tensor, isFirst: boolean): Tensor =>
      Tensor.stack(Array.from({ length: 6 }, (_, k) => {
        const row = x.slice(k);
        return isFirst ? einsum(equation, row, weight) : einsum(equation, weight, row);
      }));
    const cube = Tensor.randn([4, 4, 3]);
    const pairs: [Tensor, Tensor][] = [
      [each("i,ij->j", w, true), x.matmul(w)],
      [each("ij,j->i", w, false), x.matmul(w.mT)],
      [each("i,ijk->jk", cube, true), einsum("bi,ijk->bjk", x, cube)],
      [each("ijk,i->jk", cube, false), einsum("bi,ijk->bjk", x, cube)],
    ];
    const [one] = grad(each("ij,j->i", w, false).tanh().sum(), [w]);
    const [whole] = grad(x.matmul(w.mT).tanh().sum(), [w]);
    pairs.push([one!, whole!]);
    for (const [a, b] of pairs) assert(await a.allClose(b, { atol: 1e-5 }));
  },
);

const [steps, batch, width] = [7, 3, 24];

/** The loss of a recurrent layer, and its gradients: the input's, then those of the weights. */
function gradientsOf(x: Tensor, outputs: Tensor, parameters: readonly Tensor[]): Tensor[] {
  const loss = outputs.square().sum();
  return [loss, ...grad([loss], [x, ...parameters])];
}

/** The same by a loop over cells, as people write it. */
function byCells(
  kind: "LSTM" | "GRU",
  layer: nn.LSTM | nn.GRU,
  x: Tensor,
  at: (t: number) => Tensor,
): Tensor[] {
  const cells = [0, 1].map((k) => {
    const cell = new nn[`${kind}Cell`](width, width);
    const own = Object.entries(layer.stateDict()).filter(([name]) => name.endsWith(`_l${k}`));
    cell.loadStateDict(Object.fromEntries(own.map(([name, value]) => [name.slice(0, -3), value])));
    return cell;
  });
  const states: (Tensor | Tensor[] | undefined)[] = [undefined, undefined];
  const outputs = Array.from({ length: steps }, (_, t) =>
    cells.reduce((value, cell, k) => {
      const next = cell.forward(value, states[k] as Tensor & Tensor[]);
      states[k] = next;
      return Array.isArray(next) ? next[0]! : next;
    }, at(t)));
  return gradientsOf(x, Tensor.stack(outputs), cells.flatMap((cell) => [...cell.parameters()]));
}

testOnBackends("joinProducts: a loop over cells gives what the layer gives", async (backend) => {
  using _ = device(backend);
  for (const [kind, isFirst] of [["LSTM", false], ["GRU", true]] as const) {
    manualSeed(5);
    const layer = new nn[kind](width, width, { numLayers: 2, batchFirst: isFirst });
    const x = noGrad(() => Tensor.rand(isFirst ? [batch, steps, width] : [steps, batch, width]));
    x.realize().requiresGrad = true;
    const { output } = layer.forward(x), transposed = isFirst ? output.transpose(0, 1) : output;
    const expected = gradientsOf(x, transposed, [...layer.parameters()]);
    realizeAll(expected);
    const found = byCells(kind, layer, x, (t) => isFirst ? x.slice(null, t) : x.slice(t));
    realizeAll(found);
    for (const [k, tensor] of found.entries()) {
      const alone = await expected[k]!.toNumbers();
      (await tensor.toNumbers()).forEach((n, at) => assertAlmostEquals(n, alone[at]!, 1e-3));
    }
  }
});
