/**
 * Loaded before tests on arm64: programs that they start are run by the emulator, too, and those that the table
 * leaves out are ignored.
 */
import { leaveOut } from "../suite/left_out/left_out.ts";
import { emulator } from "./arm64.ts";
import { leftOut } from "./arm64_left_out.ts";

leaveOut(leftOut);

const { Command } = Deno, self = Deno.execPath();
/** Commands of arm64, by the names under which tests start them. */
const emulated: Readonly<Record<string, string>> = { [self]: self, env: "/usr/bin/env" };

Object.defineProperty(Deno, "Command", {
  value: class extends Command {
    constructor(command: string | URL, options: Deno.CommandOptions = {}) {
      const path = emulated[String(command)];
      // Others are this machine's, which start Deno by its path.
      const words = options.args?.flatMap((arg) => arg === self ? [emulator, self] : [arg]) ?? [];
      const args = path === undefined ? words : [path, ...words];
      super(path === undefined ? command : emulator, { ...options, args });
    }
  },
});
