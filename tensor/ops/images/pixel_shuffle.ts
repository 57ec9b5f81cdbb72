/** Channels that become pixels, and back: views, which cost nothing. */
import { type ShapeError, shapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { requireValue, takes } from "../../core/rules/options.ts";

function misfit(op: string, x: Tensor, factor: number, why: string): ShapeError {
  return shapeError(op)`Cannot ${op} a tensor of shape ${x.shape} by ${factor}: ${why}`;
}

/** (..., C r², H, W) to (..., C, H r, W r). */
export function pixelShuffle(x: Tensor, factor: number): Tensor {
  requireValue("pixelShuffle", "factor", factor, takes.count);
  const [c = 0, h, w] = x.shape.slice(-3) as [number, number, number];
  if (x.ndim < 3 || c % factor ** 2 !== 0) {
    throw misfit("pixelShuffle", x, factor, `pass [..., C * ${factor ** 2}, H, W]`);
  }
  const lead = x.shape.slice(0, -3), at = lead.length;
  const channels = c / factor ** 2;
  return x.reshape([...lead, channels, factor, factor, h, w])
    .permute([...lead.keys(), at, at + 3, at + 1, at + 4, at + 2])
    .reshape([...lead, channels, h * factor, w * factor]);
}

/** (..., C, H r, W r) to (..., C r², H, W). */
export function pixelUnshuffle(x: Tensor, factor: number): Tensor {
  requireValue("pixelUnshuffle", "factor", factor, takes.count);
  const [c, h = 0, w = 0] = x.shape.slice(-3) as [number, number, number];
  if (x.ndim < 3 || h % factor !== 0 || w % factor !== 0) {
    throw misfit("pixelUnshuffle", x, factor, `pass [..., C, H * ${factor}, W * ${factor}]`);
  }
  const lead = x.shape.slice(0, -3), at = lead.length;
  return x.reshape([...lead, c, h / factor, factor, w / factor, factor])
    .permute([...lead.keys(), at, at + 2, at + 4, at + 1, at + 3])
    .reshape([...lead, c * factor ** 2, h / factor, w / factor]);
}
