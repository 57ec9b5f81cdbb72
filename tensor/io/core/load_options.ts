import type { DeviceHandle } from "../../../backend/internal.ts";
import { deviceChoice, type Rules } from "../../core/rules/options.ts";

/** Device of the tensors of a file. */
export interface LoadOptions {
  /** The device that holds them; the active one unless given. */
  device?: string | DeviceHandle;
}

/** Rules of {@linkcode LoadOptions}. */
export const loadRules: Rules<LoadOptions> = { device: deviceChoice };
