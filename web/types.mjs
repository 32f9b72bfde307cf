// Makes TypeScript types from a JSON Schema: `node types.mjs SCHEMA OUTPUT`. It knows what our schemas use.
import { readFileSync, writeFileSync } from "node:fs";

const [input, output] = process.argv.slice(2);
const schema = JSON.parse(readFileSync(input, "utf8"));

function comment(node, indent) {
  return node.description ? `${indent}/** ${node.description.replaceAll("\n", " ")} */\n` : "";
}

function fields(node, indent) {
  const inner = `${indent}  `;
  const required = new Set(node.required ?? []);
  const lines = Object.entries(node.properties).map(([name, field]) => {
    const optional = required.has(name) ? "" : "?";
    const key = /^[a-z_$][\w$]*$/i.test(name) ? name : JSON.stringify(name);
    return `${comment(field, inner)}${inner}${key}${optional}: ${type(field, inner)};\n`;
  });
  return `{\n${lines.join("")}${indent}}`;
}

function scalar(name, node, indent) {
  if (name === "integer") return "number";
  if (name === "array") return `${wrapped(type(node.items ?? true, indent))}[]`;
  if (name === "object") {
    if (node.properties) return fields(node, indent);
    const value = node.additionalProperties;
    return `{ [key: string]: ${value && value !== true ? type(value, indent) : "unknown"} }`;
  }
  return name;
}

function wrapped(text) {
  return text.includes("|") || text.includes("&") ? `(${text})` : text;
}

function type(node, indent = "") {
  if (node === true || Object.keys(node).length === 0) return "unknown";
  const parts = [];
  if (node.$ref) parts.push(node.$ref.split("/").at(-1));
  if (node.const !== undefined) parts.push(JSON.stringify(node.const));
  else if (node.enum) parts.push(node.enum.map((value) => JSON.stringify(value)).join(" | "));
  else if (Array.isArray(node.type)) parts.push(node.type.map((name) => scalar(name, node, indent)).join(" | "));
  else if (node.type) parts.push(scalar(node.type, node, indent));
  const choices = node.oneOf ?? node.anyOf;
  if (choices) parts.push(choices.map((choice) => type(choice, indent)).join(" | "));
  for (const part of node.allOf ?? []) parts.push(type(part, indent));
  return parts.length === 1 ? parts[0] : parts.map(wrapped).join(" & ") || "unknown";
}

let text = `// Made by \`npm run types\` from schemas/page.json, which is made from the types of the program. Do not edit.\n`;
for (const [name, node] of Object.entries(schema.$defs ?? {})) {
  text += `\n${comment(node, "")}export type ${name} = ${type(node)};\n`;
}
text += `\n${comment(schema, "")}export type ${schema.title} = ${type(schema)};\n`;
writeFileSync(output, text);
