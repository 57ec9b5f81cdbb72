/**
 * The WebAssembly of the gradients of 3x3 kernels: an image's tiles of 6x6 times the gradient's tiles of
 * 4x4, whose 3x3 sums are those of all tiles. A part has its own sums, which a second module adds up in
 * order, so the result is the same for any number of threads.
 */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, v128 } from "../opcodes.ts";
import { BlockProduct, STEP_BYTES } from "./block_product.ts";
import type { TileForm } from "./convolution.ts";
import { FiniteCheck, patchRows, storePoints } from "./patches.ts";
import { alongBoth, PATCH, POINTS, TAPS, TILE, Transforms } from "./transforms.ts";

/** The arguments of {@linkcode makeGradientProducts}; offsets and sizes are in bytes. */
export const gradientArguments = [
  "image",
  "gradient",
  /** Memory of the threads: the columns and the rows of a part. */
  "scratch",
  "scratchBytes",
  "columnsPlane",
  "rowsPlane",
  /** The sums of all parts. */
  "products",
  "partBytes",
  "productsPlane",
  "productsPanel",
  /** Tables with an entry for each tile: where it begins, and what another one has of it. */
  "imageTiles",
  "gradientTiles",
  "skips",
  /** Tables of offsets: eight for each panel of channels, eight for each group of rows. */
  "channelOffsets",
  "rowOffsets",
  "imageRow",
  "gradientRow",
  "tiles",
  "partTiles",
  "panels",
  "groups",
  "longGroups",
] as const;

/** The module that computes the sums of parts `begin` to `end`. */
export function makeGradientProducts(form: TileForm): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder(), math = new VectorMath(f, form.isRelaxed);
  const args = new KernelArguments(f, gradientArguments), transforms = new Transforms(f, math);
  const product = new BlockProduct(f, math, form);
  const { begin, end, thread } = FunctionBuilder.parameters;
  const before = f.i(i32.mul, thread, args.get("scratchBytes"));
  const columns = f.i(i32.add, args.get("scratch"), before);
  const columnBytes = f.iWith(i32.mul, args.get("columnsPlane"), POINTS);
  const rows = f.i(i32.add, columns, columnBytes);
  f.loop(begin, end, 1, (part) => {
    const tile = f.i(i32.mul, part, args.get("partTiles"));
    const tileEnd = f.smaller(f.i(i32.add, tile, args.get("partTiles")), args.get("tiles"));
    const sumBytes = f.iWith(i32.mul, f.i(i32.sub, tileEnd, tile), STEP_BYTES);
    const places = { column: f.copy(columns), row: f.copy(rows) };
    f.loop(tile, tileEnd, 1, (t) => {
      transformTile(f, args, transforms, t, places, sumBytes);
      f.step(places.column, STEP_BYTES);
      f.step(places.row, STEP_BYTES);
    });
    const offset = f.i(i32.mul, part, args.get("partBytes"));
    product.write({
      left: rows,
      leftPlane: args.get("rowsPlane"),
      right: columns,
      rightPlane: args.get("columnsPlane"),
      result: f.i(i32.add, args.get("products"), offset),
      resultPlane: args.get("productsPlane"),
      resultPanel: args.get("productsPanel"),
      sumBytes,
      groups: args.get("groups"),
      longGroups: args.get("longGroups"),
      panels: args.get("panels"),
    });
  });
  return f.finish(form.hasPrivatePage);
}

/** Transforms a tile of the image, and one of the gradient, for all channels and rows. */
function transformTile(
  f: FunctionBuilder,
  args: KernelArguments<typeof gradientArguments[number]>,
  transforms: Transforms,
  tile: Local,
  { column, row }: { readonly column: Local; readonly row: Local },
  sumBytes: Local,
): void {
  const eights = (
    count: Local,
    first: Local,
    table: "channelOffsets" | "rowOffsets",
    base: Local,
    body: (bases: readonly Local[], place: Local) => void,
  ): void => {
    const at = f.copy(first);
    f.loop(f.integer(0), f.iWith(i32.shl, count, 3), 8, (k) => {
      f.loop(f.integer(0), f.integer(8), 4, (half) => {
        const offsets = args.fourEntries(table, f.i(i32.add, k, half));
        const place = f.i(i32.add, at, f.iWith(i32.shl, half, 2));
        body(offsets.map((offset) => f.i(i32.add, base, offset)), place);
      });
      f.assign(at, f.i(i32.add, at, sumBytes));
    });
  };
  const image = f.i(i32.add, args.get("image"), args.entry("imageTiles", tile));
  eights(args.get("panels"), column, "channelOffsets", image, (bases, place) => {
    const read = patchRows(f, bases, args.get("imageRow"), PATCH);
    const points = alongBoth(PATCH, read, (line) => transforms.image(line));
    storePoints(f, points, place, args.get("columnsPlane"));
  });
  const gradient = f.i(i32.add, args.get("gradient"), args.entry("gradientTiles", tile));
  const masks = tileMasks(f, args.entry("skips", tile));
  eights(args.get("groups"), row, "rowOffsets", gradient, (bases, place) => {
    const read = patchRows(f, bases, args.get("gradientRow"), TILE);
    const masked = (y: number): Local[] =>
      read().map((value, x) => f.v(v128.and, value, masks[y]![x]!));
    const points = alongBoth(TILE, masked, (line) => transforms.gradient(line));
    storePoints(f, points, place, args.get("rowsPlane"));
  });
}

/** All bits of the elements that no other tile has: `skip` says how many first rows and columns are. */
function tileMasks(f: FunctionBuilder, skip: Local): Local[][] {
  const [rows, columns] = [f.iWith(i32.and, skip, 7), f.iWith(i32.shrU, skip, 3)].map((first) => {
    const splat = f.v(i32x4.splat, first!);
    return Array.from({ length: TILE }, (_, k) => f.v(i32x4.leS, splat, f.splat(k)));
  });
  return rows!.map((row) => columns!.map((column) => f.v(v128.and, row, column)));
}

/** The arguments of {@linkcode makeGradientSums}; offsets and sizes are in bytes. */
export const gradientSumArguments = [
  "result",
  "products",
  "parts",
  "partBytes",
  "productsPlane",
  "productsPanel",
  /** Tables of offsets: of rows in a panel's products, and of the result's rows, channels, taps. */
  "productRows",
  "resultRows",
  "resultChannels",
  "tapOffsets",
  "channels",
  /** 1 is written where a result is not finite. */
  "notFinite",
] as const;

/** The module that adds up the parts' sums, and turns them into gradients of rows `begin` to `end`. */
export function makeGradientSums(isRelaxed: boolean): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder(), math = new VectorMath(f, isRelaxed);
  const args = new KernelArguments(f, gradientSumArguments), transforms = new Transforms(f, math);
  const { begin, end } = FunctionBuilder.parameters;
  const check = new FiniteCheck(f, math);
  const taps = Array.from(
    { length: TAPS * TAPS },
    (_, k) => args.entry("tapOffsets", f.integer(k)),
  );
  f.loop(begin, end, 1, (row) => {
    const result = f.i(i32.add, args.get("result"), args.entry("resultRows", row));
    const first = f.i(i32.add, args.get("products"), args.entry("productRows", row));
    f.loop(f.integer(0), args.get("channels"), 4, (channel) => {
      const panel = f.iWith(i32.shrU, channel, 3), half = f.iWith(i32.and, channel, 4);
      const offset = f.i(
        i32.add,
        f.i(i32.mul, panel, args.get("productsPanel")),
        f.iWith(i32.shl, half, 2),
      );
      const at = f.i(i32.add, first, offset);
      const read = (): Local[] =>
        Array.from({ length: PATCH }, () => {
          const sum = sumOfParts(f, args, at);
          f.assign(at, f.i(i32.add, at, args.get("productsPlane")));
          return sum;
        });
      const gradients = alongBoth(PATCH, read, (line) => transforms.outputs(line, TAPS)).flat();
      check.add(gradients);
      const places = args.fourEntries("resultChannels", channel);
      places.forEach((place, lane) => {
        const base = f.i(i32.add, result, place);
        const isThere = f.i(i32.ltS, f.iWith(i32.add, channel, lane), args.get("channels"));
        f.branch(
          isThere,
          () =>
            gradients.forEach((value, k) =>
              f.store(v128.store32Lane, f.i(i32.add, base, taps[k]!), value, 0, lane)
            ),
        );
      });
    });
  });
  f.branch(check.found(), () => args.set("notFinite", f.integer(1)));
  return f.finish();
}

/** The sum of what all parts have at a place. */
function sumOfParts(
  f: FunctionBuilder,
  args: KernelArguments<typeof gradientSumArguments[number]>,
  place: Local,
): Local {
  const sum = f.copyVector(f.load(v128.load, place)), at = f.copy(place);
  f.loop(f.integer(1), args.get("parts"), 1, () => {
    f.assign(at, f.i(i32.add, at, args.get("partBytes")));
    f.assign(sum, f.v(f32x4.add, sum, f.load(v128.load, at)));
  });
  return sum;
}
