/**
 * Samplers: how kernels read images.
 *
 * @module
 */
import { AddressingMode, FilterMode } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { check } from "../library/errors.ts";
import { cl } from "../library/library.ts";
import { OpenCLObject, releasers, requireObject } from "../objects/object.ts";
import * as takes from "../host/option_rules.ts";
import { checkOptions, type Rules } from "../host/options.ts";

const addressing = {
  "none": AddressingMode.NONE,
  "clamp-to-edge": AddressingMode.CLAMP_TO_EDGE,
  "clamp": AddressingMode.CLAMP,
  "repeat": AddressingMode.REPEAT,
  "mirrored-repeat": AddressingMode.MIRRORED_REPEAT,
} as const;

/** Options of a sampler. */
export interface SamplerOptions {
  /** True when coordinates run from 0 to 1 over the image; in elements by default. */
  readonly normalized?: boolean;
  /** Values outside of the image; `"clamp-to-edge"` by default. */
  readonly addressing?: "none" | "clamp-to-edge" | "clamp" | "repeat" | "mirrored-repeat";
  /** Values between elements; `"nearest"` by default. */
  readonly filter?: "nearest" | "linear";
}

const rules: Rules<SamplerOptions> = {
  normalized: takes.bool,
  addressing: takes.oneOf(...Object.keys(addressing)),
  filter: takes.oneOf("nearest", "linear"),
};

const errorCode = new Int32Array(1);

/** A sampler that kernels take as an argument. */
export class Sampler extends OpenCLObject<"Sampler"> {
  /** Makes a sampler. Repeating needs normalized coordinates. */
  constructor(context: Context, options: SamplerOptions = {}) {
    checkOptions("make a Sampler", options, rules);
    requireObject("make a Sampler", context, "Context");
    const filter = options.filter === "linear" ? FilterMode.LINEAR : FilterMode.NEAREST;
    const handle = cl.clCreateSampler(
      context.unsafeHandle,
      options.normalized ? 1 : 0,
      addressing[options.addressing ?? "clamp-to-edge"],
      filter,
      errorCode,
    );
    check(errorCode[0]!, "clCreateSampler");
    super("Sampler", handle, releasers.sampler);
  }
}
