import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [svelte()],
  build: {
    // Beside the README that keeps the folder in the checkout.
    outDir: "dist/page",
    target: "es2022",
    // The security policy allows no `data:` scripts or styles; every asset is a file.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 300,
  },
  server: { proxy: { "/api": "http://127.0.0.1:5280" } },
  test: { include: ["src/**/*.test.ts"] },
});
