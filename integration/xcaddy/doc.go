// Package xcaddy proves that the module can be built the way Caddy's users
// build theirs: by import path, with xcaddy.
package xcaddy
