/** Loaded before tests on arm64: programs that they start are run by the emulator, too. */
import { emulator } from "./arm64.ts";

const { Command } = Deno, self = Deno.execPath();

Object.defineProperty(Deno, "Command", {
  value: class extends Command {
    constructor(command: string | URL, options: Deno.CommandOptions = {}) {
      const isDeno = command === self, args = [...isDeno ? [self] : [], ...options.args ?? []];
      super(isDeno ? emulator : command, { ...options, args });
    }
  },
});
