/** The parameters of public functions that are objects of options. */
import { type Declaration, publicDeclarations, type Type } from "./declarations.ts";

/** True for an object of named options: its type is written in place, or a record with optionals. */
export function isOptions(type: Type | undefined, records: ReadonlySet<string>): boolean {
  switch (type?.kind) {
    case "typeLiteral":
      return type.value.properties?.length > 0 && !type.value.methods?.length;
    case "typeRef": {
      const { typeName, typeParams = [] } = type.value;
      if (records.has(typeName) || typeName.endsWith("Options")) return true;
      return ["Required", "Partial", "Recorded"].includes(typeName) &&
        typeParams.some((inner: Type) => isOptions(inner, records));
    }
    case "intersection":
    case "union":
      return type.value.some((inner: Type) => isOptions(inner, records));
  }
  return false;
}

function isRecord({ kind, def }: Declaration): boolean {
  const { methods = [], callSignatures = [], properties = [] } = def;
  return kind === "interface" && methods.length === 0 && callSignatures.length === 0 &&
    properties.some((property: { optional: boolean }) => property.optional);
}

/** Names of the interfaces whose fields may be left out. */
export async function optionRecords(): Promise<Set<string>> {
  const declarations = await publicDeclarations();
  return new Set(
    declarations.filter(({ declaration }) => isRecord(declaration))
      .map(({ name }) => name.split(".").at(-1)!),
  );
}
