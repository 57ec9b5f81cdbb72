import { assert, assertEquals, assertRejects } from "@std/assert";
import { nn, noGrad, Tensor } from "../../../../../mod.ts";
import { loadOnnx, saveOnnx } from "@netcl/netcl/models";
import { testOnBackends, testOnCPU } from "../../../../opencl.ts";
import { inFolder } from "../../../../temporary_folder.ts";
import { layers, others, saveLayer } from "./layers.ts";

testOnCPU(
  "each layer of nn is saved as ONNX, and gives the same for another batch",
  () =>
    inFolder(async (folder) => {
      for (const name of Object.keys(layers)) {
        const { path, inputs, wanted } = await saveLayer(name, folder);
        const graph = await loadOnnx(path), outputs = noGrad(() => graph.run(inputs));
        for (const [key, value] of Object.entries(wanted)) {
          assertEquals(outputs[key]!.shape, value.shape, `${name}: ${key}`);
          assert(
            await outputs[key]!.allClose(value, { rtol: 1e-4, atol: 1e-5 }),
            `${name}: ${key}`,
          );
        }
      }
    }),
);

Deno.test("every class of nn is among the layers that are saved, or is no layer by itself", () => {
  const classes = Object.entries(nn).filter(([, value]) =>
    typeof value === "function" && value.prototype instanceof nn.Module
  ).map(([name]) => name);
  assertEquals(classes.filter((name) => !(name in layers || others.includes(name))), []);
});

class Doing extends nn.Module<Tensor[], Tensor | Tensor[]> {
  readonly #fn: (x: Tensor) => Tensor | Tensor[];
  constructor(fn: (x: Tensor) => Tensor | Tensor[]) {
    super();
    this.#fn = fn;
  }
  forward(x: Tensor): Tensor | Tensor[] {
    return this.#fn(x);
  }
}

testOnBackends(
  "saveOnnx writes orders, and constants that follow from a length",
  () =>
    inFolder(async (folder) => {
      const path = `${folder}/model.onnx`;
      const programs: ((x: Tensor) => Tensor | Tensor[])[] = [
        (x) => Object.values(x.sort(1, { descending: true })),
        (x) => Object.values(x.topk(2, 0, { largest: false })),
        (x) => [x.argsort(1), x.flip([0, 1])],
        (x) => x.add(Tensor.ones([x.shape[1]!])),
        (x) => x.mul(Tensor.arange(1, x.shape[1]! + 1, 1, { dtype: "float32" })),
      ];
      for (const program of programs) {
        const model = new Doing(program);
        await saveOnnx(path, model, { x: Tensor.randn([1, 4]).expand([3, 4]).contiguous() }, {
          dynamic: { x: ["n", "length"] },
        });
        const graph = await loadOnnx(path), x = Tensor.randn([5, 7]);
        const wanted = [noGrad(() => model.forward(x))].flat();
        const given = Object.values(noGrad(() => graph.run({ x })));
        for (const [k, tensor] of given.entries()) {
          assertEquals(tensor.shape, wanted[k]!.shape);
          assert(await tensor.allClose(wanted[k]!, { rtol: 1e-5 }), `${program}`);
        }
      }
      // Neither one number nor a range.
      const squares = new Doing((x) =>
        x.add(Tensor.fromHost(Array.from({ length: x.shape[1]! }, (_, k) => k * k)))
      );
      const options = { dynamic: { x: [null, "length"] } };
      await assertRejects(
        () => saveOnnx(path, squares, { x: Tensor.ones([2, 4]) }, options),
        TypeError,
        "follows from a length",
      );
      // A number that is told to an operation is no value of the graph.
      const scaled = new Doing((x) => x.mul(x.shape[1]!));
      await assertRejects(
        () => saveOnnx(path, scaled, { x: Tensor.ones([2, 4]) }, options),
        TypeError,
        "mul is told 4, and 8 with other lengths",
      );
    }),
);

testOnCPU(
  "saveOnnx keeps a batch open that its example has one of",
  () =>
    inFolder(async (folder) => {
      const path = `${folder}/model.onnx`;
      const model = new nn.Sequential(new nn.Linear(4, 3), new nn.LogSoftmax());
      await saveOnnx(path, model, { x: Tensor.ones([1, 4]) }, { dynamic: { x: ["n"] } });
      const graph = await loadOnnx(path), x = Tensor.randn([3, 4]);
      assert(await graph.run({ x }).output!.allClose(model.forward(x), { atol: 1e-5 }));
    }),
);
