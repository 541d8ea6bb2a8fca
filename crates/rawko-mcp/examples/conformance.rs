//! The client as the public conformance suite drives it (`scripts/test-mcp.sh`): connects, lists the tools and calls them,
//! and logs in where the server wants that.
//!
//! The suite gives the address as the last argument, and the calls to make in `MCP_CONFORMANCE_CONTEXT`. There is one way
//! for all scenarios, which is the way that rawko goes.

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rawko_mcp::{
    Connection, HttpServer, ListedTool, Login, McpError, Options, ProtocolRevision, Question, Reply,
    StoreCredentials, login,
};
use serde_json::{Map, Value, json};

type Failure = Box<dyn Error + Send + Sync>;

/// How often the client logs in before it gives up.
const MOST_LOGINS: usize = 3;
/// The tool of the scenario `json-schema-2020-12-preservation`.
const SCHEMA_ECHO: &str = "json_schema_echo";

#[derive(Default)]
struct Memory(Mutex<Option<String>>);

impl StoreCredentials for Memory {
    fn load(&self) -> Result<Option<String>, String> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn save(&self, credentials: Option<&String>) -> Result<(), String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = credentials.cloned();
        Ok(())
    }
}

struct Client {
    url: String,
    context: Value,
    options: Options,
    store: Arc<Memory>,
    logins: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let url = std::env::args().next_back().unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context = context.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    // As in a run, where the revision is known from the approval.
    let known = std::env::var("RAWKO_MCP_KNOWN").ok().map(ProtocolRevision);
    let options = Options {
        start: Duration::from_secs(15),
        call: Duration::from_secs(15),
        known,
        person: Some(Arc::new(|question| Box::pin(async move { Reply::Given(values(&question)) }))),
        ..Options::default()
    };
    let mut client = Client { url, context, options, store: Arc::default(), logins: 0 };
    match client.work().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

impl Client {
    async fn work(&mut self) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        let tools = loop {
            match connection.tools().await {
                Err(McpError::LoginNeeded { challenge }) => {
                    connection = self.again(connection, challenge).await?;
                }
                tools => break tools?.usable,
            }
        };
        for (name, arguments) in self.calls(&tools) {
            loop {
                match connection.call(&name, arguments.clone(), &|_: &str| {}).await {
                    Err(McpError::LoginNeeded { challenge }) => {
                        connection = self.again(connection, challenge).await?;
                    }
                    answer => break drop(answer?),
                }
            }
        }
        connection.close().await;
        Ok(())
    }

    async fn again(&mut self, connection: Connection, challenge: String) -> Result<Connection, Failure> {
        connection.close().await;
        self.login(challenge).await?;
        self.connect().await
    }

    async fn connect(&mut self) -> Result<Connection, Failure> {
        let server = HttpServer { url: self.url.clone(), headers: Vec::new(), client: self.registered() };
        loop {
            let store: Arc<dyn StoreCredentials> = self.store.clone();
            match Connection::over_http(&server, Some(store), self.options.clone()).await {
                Err(McpError::LoginNeeded { challenge }) => self.login(challenge).await?,
                connected => return Ok(connected?),
            }
        }
    }

    async fn login(&mut self, challenge: String) -> Result<(), Failure> {
        self.logins += 1;
        if self.logins > MOST_LOGINS {
            return Err("the server wants one login after the other".into());
        }
        let wanted = Login {
            url: self.url.clone(),
            challenge: Some(challenge),
            redirect: "http://localhost:3000/callback".to_owned(),
            client: self.registered(),
            document: Some("https://conformance-test.local/client-metadata.json".to_owned()),
        };
        login(wanted, self.store.clone(), visit).await?;
        Ok(())
    }

    /// The client that the suite registered.
    fn registered(&self) -> Option<rawko_mcp::Client> {
        let text = |name: &str| self.context.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(rawko_mcp::Client { id: text("client_id")?, secret: text("client_secret") })
    }

    /// The calls that the suite wants, or each tool once.
    fn calls(&self, tools: &[ListedTool]) -> Vec<(String, Map<String, Value>)> {
        let wanted = self.context.get("toolCalls").and_then(Value::as_array);
        if let Some(wanted) = wanted {
            let call = |call: &Value| {
                let arguments = call.get("arguments").and_then(Value::as_object).cloned();
                Some((call.get("name")?.as_str()?.to_owned(), arguments.unwrap_or_default()))
            };
            return wanted.iter().filter_map(call).collect();
        }
        let call = |tool: &ListedTool| (tool.name.clone(), arguments(tools, tool));
        tools.iter().map(call).collect()
    }
}

/// What a tool is called with: a value for each required field. One that echoes a schema gets that of another tool, as it
/// was received.
fn arguments(tools: &[ListedTool], tool: &ListedTool) -> Map<String, Value> {
    let mut values = required(&tool.input_schema);
    if tool.name == SCHEMA_ECHO {
        let other = tools.iter().find(|other| other.name != tool.name);
        values.extend(other.map(|other| ("schema".to_owned(), other.input_schema.clone())));
    }
    values
}

/// A value for each required field.
fn required(schema: &Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let value = |name: &str| match schema.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str)
    {
        Some("number") => json!(1.5),
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        _ => json!("test"),
    };
    required.filter_map(Value::as_str).map(|name| (name.to_owned(), value(name))).collect()
}

/// What the schema proposes, and something for the rest.
fn values(question: &Question) -> Map<String, Value> {
    let mut values = question.schema.as_ref().map(required).unwrap_or_default();
    values.extend(question.defaults());
    values
}

/// What a browser would do: the suite's authorization server asks no one.
async fn visit(address: String) -> Result<String, String> {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let response = client.map_err(|error| error.to_string())?.get(address).send().await;
    let response = response.map_err(|error| error.to_string())?;
    let location = response.headers().get("location").and_then(|location| location.to_str().ok());
    location.map(str::to_owned).ok_or_else(|| format!("it did not send back: {}", response.status()))
}
