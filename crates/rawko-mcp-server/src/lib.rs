//! rawko as a server of the Model Context Protocol, over stdio and streamable HTTP.
