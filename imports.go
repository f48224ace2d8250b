// Package e2bgateway makes the module's root an import path that Caddy can be
// built with: xcaddy build --with github.com/caddy-e2b/gateway. It holds no
// code; package module has it.
package e2bgateway

import _ "github.com/caddy-e2b/gateway/module"
