/**
 * Finds groups of points by k-means (S. Lloyd, Least Squares Quantization in PCM, 1982), as nothing but
 * tensors: no loop over points, no kernel of its own.
 *
 *     deno run -A examples/clusters.ts --help
 */
import { compile, Tensor } from "@netcl/netcl";
import { optionsWith } from "./flags.ts";
import { runExample } from "./run_example.ts";

/** The nearest centre of each point: `|p - c|^2` without `|p|^2`, which is the same for all of them. */
function nearest(points: Tensor, centres: Tensor): Tensor {
  const lengths = centres.square().sum(1);
  return lengths.sub(points.matmul(centres.transpose()).mul(2)).argmin(1);
}

/** The means of the points that are nearest to each centre; one without points stays. */
function moved(points: Tensor, centres: Tensor): Tensor {
  const members = nearest(points, centres).oneHot(centres.shape[0]!).cast("float32");
  const counts = members.sum(0).unsqueeze(1);
  const sums = members.transpose().matmul(points);
  return counts.eq(0).where(centres, sums.div(counts.maximum(1)));
}

/** A picture of the points, a letter for each group. */
function draw(points: number[][], groups: number[], width = 64, height = 24): string {
  const rows = Array.from({ length: height }, () => Array<string>(width).fill(" "));
  const place = (value: number, cells: number) =>
    Math.min(Math.max(Math.round((value + 1.3) / 2.6 * cells), 0), cells - 1);
  points.forEach(([x, y], k) => {
    rows[place(-y!, height)]![place(x!, width)] = String.fromCharCode(97 + groups[k]! % 26);
  });
  return rows.map((row) => row.join("")).join("\n");
}

const about = "Finds groups of points by k-means, as a program of tensors.";
const flags = optionsWith({ points: "3000", groups: "6", steps: "20" });
await runExample({ about, file: "examples/clusters.ts", flags }, async (values, print) => {
  const [size, groups, steps] = [values.points, values.groups, values.steps].map(Number);
  // Groups on a circle, and points around their middles.
  const angle = Tensor.arange(groups!).mul(2 * Math.PI / groups!);
  const middles = Tensor.stack([angle.cos(), angle.sin()], 1);
  const points = middles.indexSelect(0, Tensor.randint(0, groups!, [size!]))
    .add(Tensor.randn([size!, 2]).mul(0.13)).realize();

  // Begin with the point that is farthest from those chosen so far, again and again.
  let centres = points.slice([0, 1]).realize();
  while (centres.shape[0]! < groups!) {
    const distance = points.unsqueeze(1).sub(centres).square().sum(2).min(1);
    centres = Tensor.concat([centres, points.indexSelect(0, distance.argmax(0).reshape([1]))])
      .realize();
  }
  const step = compile((from: Tensor): Tensor => moved(points, from));
  for (let k = 0; k < steps!; k++) centres = step(centres);

  const found = nearest(points, centres);
  print(draw(await points.toArray() as number[][], await found.toNumbers()));
  const spread = points.sub(centres.indexSelect(0, found)).square().sum(1).mean();
  print(`mean squared distance from the centre: ${(await spread.item()).toFixed(4)}`);
});
