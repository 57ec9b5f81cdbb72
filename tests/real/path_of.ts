import { registryModel } from "../../examples/models/registry_models.ts";

/** The path of a model; null where it cannot be had. */
export async function pathOf(name: string): Promise<string | null> {
  try {
    return await registryModel(name);
  } catch (error) {
    console.log(`The tests of ${name} are left out: ${(error as Error).message}`);
    return null;
  }
}
