import { defineConfig } from 'vitest/config';

// The build is committed, so names carry no hash and nothing in the output depends on the machine: a rebuild gives the
// same bytes. `base: './'` keeps every URL relative to index.html, so the page works below any --base-path.
export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    sourcemap: false,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    license: { fileName: 'licenses.txt' },
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      output: {
        entryFileNames: 'assets/app.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: (asset) => (asset.names.some((n) => n.endsWith('.css')) ? 'assets/app.css' : 'assets/[name][extname]'),
      },
    },
  },
  test: {
    environment: 'node',
    include: ['test/**/*.test.{ts,tsx}'],
    restoreMocks: true,
  },
});
