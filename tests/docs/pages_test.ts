import { testSnippets } from "./snippets.ts";

await testSnippets(["README.md", "CONTRIBUTING.md", "examples/guide", "mod.ts"], false);
