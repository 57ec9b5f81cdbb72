/** On the built-in backend: what the examples show is the same on both, and it needs no compiler. */
import { testSnippets } from "./snippets.ts";

Deno.env.set("NETCL_DEVICE", "cpu");
await testSnippets(["tensor"], false);
