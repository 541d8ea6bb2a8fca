//! Connections to servers of tools (MCP), and what such a server may ask a person.

pub use rawko_mcp::{
    Answer, AskPerson, Client, Connection, Credentials, HttpServer, ListedTool, Login, McpError, Options,
    Picture, PromptInfo, ProtocolRevision, Question, Reply, ResourceInfo, StoreCredentials, Tools,
    UnusableTool, login,
};
