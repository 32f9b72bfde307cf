// Bundles the page: `node build.mjs DIRECTORY`. The result is committed in `dist/`, so that `cargo build` needs no Node.
import { build } from "esbuild";

const shared = { bundle: true, minify: true, target: ["es2022"], charset: "utf8", legalComments: "none", logLevel: "warning" };
const out = process.argv[2] ?? "dist";
await build({ ...shared, entryPoints: ["src/main.ts"], format: "iife", outfile: `${out}/page.js` });
await build({ ...shared, entryPoints: ["src/page.css"], outfile: `${out}/page.css` });
