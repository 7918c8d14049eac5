package demo

import (
	"fmt"

	acp "github.com/coder/acp-go-sdk"
)

// keepMedia is the size in bytes (base64) up to which pictures, sounds and blobs are kept in a session's history.
const keepMedia = 256 << 10

// userTexts are the texts in a prompt: its text blocks and the texts of embedded resources, in order.
func userTexts(blocks []acp.ContentBlock) []string {
	var out []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			out = append(out, b.Text.Text)
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			out = append(out, b.Resource.Resource.TextResourceContents.Text)
		}
	}
	return out
}

// lastText is the last text block: what the user typed, behind whatever was put in front of it.
func lastText(blocks []acp.ContentBlock) string {
	text := ""
	for _, b := range blocks {
		if b.Text != nil {
			text = b.Text.Text
		}
	}
	return text
}

func hasResource(blocks []acp.ContentBlock) bool {
	for _, b := range blocks {
		if b.Resource != nil {
			return true
		}
	}
	return false
}

// media is the type and size of what a block carries that is no text; false for text and links.
func media(b acp.ContentBlock) (mime string, data string, ok bool) {
	switch {
	case b.Image != nil:
		return b.Image.MimeType, b.Image.Data, true
	case b.Audio != nil:
		return b.Audio.MimeType, b.Audio.Data, true
	case b.Resource != nil && b.Resource.Resource.BlobResourceContents != nil:
		blob := b.Resource.Resource.BlobResourceContents
		mime := "application/octet-stream"
		if blob.MimeType != nil {
			mime = *blob.MimeType
		}
		return mime, blob.Blob, true
	}
	return "", "", false
}

// kept is what the history keeps of a prompt: large media are replaced by a link that says what was there.
func kept(blocks []acp.ContentBlock) []acp.ContentBlock {
	out := make([]acp.ContentBlock, len(blocks))
	for i, b := range blocks {
		if mime, data, ok := media(b); ok && len(data) > keepMedia {
			b = acp.ResourceLinkBlock(fmt.Sprintf("%s, %s, not kept", mime, size(data)), "demo:not-kept")
		}
		out[i] = b
	}
	return out
}

// describeMedia says what else a prompt carried, as it is kept.
func describeMedia(blocks []acp.ContentBlock) []string {
	var out []string
	for _, b := range blocks {
		if mime, data, ok := media(b); ok {
			out = append(out, fmt.Sprintf("Got %s, %s.", mime, size(data)))
		}
		if b.ResourceLink != nil {
			out = append(out, fmt.Sprintf("Got a link: %s.", b.ResourceLink.Name))
		}
	}
	return out
}

// size is the decoded size of base64 data in words.
func size(data string) string {
	n := len(data) * 3 / 4
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d B", n)
	}
}
