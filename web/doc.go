// Package web holds the page and serves it.
//
// The page is a single-page application with relative URLs, so it works below any base path as long as its own address
// ends in a slash. It has one address, "/"; where it stands is in the fragment.
//
// Invariants: what is served is fixed when the handler is made; a request reads no disk and allocates no body; names are
// stable from release to release, so every answer carries an ETag and is revalidated.
package web
