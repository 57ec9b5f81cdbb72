/**
 * The number of bytes of an element: needed before the image exists, because the driver
 * reads so many bytes of its first content.
 *
 * @module
 */
import { ChannelOrder, ChannelType } from "../library/constants.ts";
import * as takes from "../host/option_rules.ts";
import type { Rules } from "../host/options.ts";

/** The channels of an element, by their names in cl.h: `{ order: "RGBA", type: "FLOAT" }`. */
export interface ImageFormat {
  /** The channels. */
  readonly order: keyof typeof ChannelOrder;
  /** The type of each. */
  readonly type: keyof typeof ChannelType;
}

/** Rules for the values of {@linkcode ImageFormat}. */
export const formatRules: Rules<ImageFormat> = {
  order: takes.oneOf(...Object.keys(ChannelOrder)),
  type: takes.oneOf(...Object.keys(ChannelType)),
};

const channels: { readonly [order in keyof typeof ChannelOrder]: number } = {
  R: 1,
  A: 1,
  RG: 2,
  RA: 2,
  RGB: 3,
  RGBA: 4,
  BGRA: 4,
  ARGB: 4,
  INTENSITY: 1,
  LUMINANCE: 1,
  Rx: 2,
  RGx: 3,
  RGBx: 4,
  DEPTH: 1,
  DEPTH_STENCIL: 1,
  sRGB: 3,
  sRGBx: 4,
  sRGBA: 4,
  sBGRA: 4,
  ABGR: 4,
};

const channelBytes: { readonly [type in keyof typeof ChannelType]?: number } = {
  SNORM_INT8: 1,
  SNORM_INT16: 2,
  UNORM_INT8: 1,
  UNORM_INT16: 2,
  SIGNED_INT8: 1,
  SIGNED_INT16: 2,
  SIGNED_INT32: 4,
  UNSIGNED_INT8: 1,
  UNSIGNED_INT16: 2,
  UNSIGNED_INT32: 4,
  HALF_FLOAT: 2,
  FLOAT: 4,
};

/** Types that pack all channels of an element into one word. */
const packedBytes: { readonly [type in keyof typeof ChannelType]?: number } = {
  UNORM_SHORT_565: 2,
  UNORM_SHORT_555: 2,
  UNORM_INT_101010: 4,
  UNORM_INT_101010_2: 4,
  UNORM_INT24: 4,
};

/**
 * Bytes of an element.
 *
 * @throws {RangeError} If the order or the type is none of cl.h.
 */
export function elementBytes({ order, type }: ImageFormat): number {
  const bytes = packedBytes[type] ?? channels[order] * (channelBytes[type] ?? NaN);
  if (Number.isInteger(bytes)) return bytes;
  throw new RangeError(`Cannot make an image of ${order} ${type}: OpenCL knows no such format`);
}
