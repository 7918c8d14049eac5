package web

import "embed"

// dist is the committed build of the page. Naming its parts makes a build without one of them fail here instead of
// serving a gateway without a page.
//
//go:embed dist/index.html dist/icon.svg dist/licenses.txt dist/assets/app.js dist/assets/app.css dist/assets/highlight.js
var dist embed.FS
