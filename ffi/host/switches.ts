/**
 * Environment variables that are on or off.
 */
import { EnvironmentError, type EnvironmentName, readEnvironment } from "./environment.ts";

/**
 * Reads a variable that may be 0 or 1.
 *
 * @returns undefined where it is unset or may not be read.
 * @throws {RangeError} When it holds something else.
 */
export function readSwitch(name: EnvironmentName): boolean | undefined {
  const value = readEnvironment(name);
  if (value === undefined) return undefined;
  if (value === "0" || value === "1") return value === "1";
  throw new EnvironmentError(name, value, "write 0 or 1");
}
