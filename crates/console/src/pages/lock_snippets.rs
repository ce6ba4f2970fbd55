//! Lines to copy for one lock, with the address that the reader has called.

use axum::http::Method;
use holdfast_api::{lock_path, policy_path};
use holdfast_types::LockName;
use maud::{Markup, html};

use crate::call::ApiCall;
use crate::layout::snippet;
use crate::page::PageRequest;

pub(super) fn section(request: &PageRequest, lock: &LockName) -> Markup {
    let has_credential = request.api.has_credential();
    let curl = |method: Method, path: String, query: &[(&'static str, &str)]| {
        let query = query.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        ApiCall { method, path, query }.curl(&request.address, has_credential)
    };
    let acquire = [("session", "me"), ("ttl", "10m"), ("wait", "30s")];
    let (shell, python, rust) =
        (in_shell(request, lock), in_python(request, lock), in_rust(request, lock));
    let (go, script) = (in_go(request, lock), in_typescript(request, lock));
    html! {
        section aria-labelledby="use-title" {
            h2 id="use-title" { "Use this lock" }
            details {
                summary { "curl" }
                (snippet("curl-acquire", "acquire, and wait at most 30 s", &curl(Method::PUT, lock_path(lock), &acquire)))
                (snippet("curl-release", "release", &curl(Method::DELETE, lock_path(lock), &[("session", "me")])))
                (snippet("curl-read", "read the holders and the queue", &curl(Method::GET, lock_path(lock), &[])))
                (snippet("curl-policy", "read the policy", &curl(Method::GET, policy_path(lock), &[])))
            }
            details { summary { "Command line" } (snippet("cli", "the commands", &shell)) }
            details { summary { "Python" } (snippet("python", "Python", &python)) }
            details { summary { "TypeScript" } (snippet("typescript", "TypeScript", &script)) }
            details { summary { "Go" } (snippet("go", "Go", &go)) }
            details { summary { "Rust" } (snippet("rust", "Rust", &rust)) }
        }
    }
}

/// A name as a word of the shell.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@".contains(&byte);
    if text.bytes().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A name as a string of Python and JavaScript, with escapes for what is not ASCII.
fn literal(text: &str) -> String {
    let escaped = text.encode_utf16().map(|unit| match char::from_u32(unit.into()) {
        Some(plain @ (' ' | '!' | '#'..='[' | ']'..='~')) => plain.to_string(),
        Some(_) | None => format!("\\u{unit:04x}"),
    });
    format!("\"{}\"", escaped.collect::<Vec<_>>().concat())
}

fn in_shell(request: &PageRequest, lock: &LockName) -> String {
    let (address, lock) = (&request.address, shell_word(lock.as_str()));
    format!(
        "export HOLDFAST_ADDR={address}\nholdfast run {lock} -- ./job.sh   # the job runs while it holds the lock\n\
         holdfast who {lock}               # the holders and the queue\nholdfast history {lock}           # the past holds"
    )
}

fn in_python(request: &PageRequest, lock: &LockName) -> String {
    let (address, lock) = (literal(&request.address), literal(lock.as_str()));
    format!(
        "import holdfast\n\nhf = holdfast.Client([{address}])\nwith hf.lock({lock}, wait=30) as guard:\n    \
         guard.ensure()\n    print(guard.token)   # send it with every write\nhf.close()"
    )
}

fn in_typescript(request: &PageRequest, lock: &LockName) -> String {
    let (address, lock) = (literal(&request.address), literal(lock.as_str()));
    format!(
        "import {{ Client }} from \"holdfast\";\n\nconst hf = new Client({{ addresses: [{address}] }});\n\
         await hf.withLock({lock}, {{ wait: \"30s\" }}, async ({{ token, signal }}) => {{\n  \
         signal.throwIfAborted();\n  console.log(token); // send it with every write\n}});\nawait hf.close();"
    )
}

fn in_go(request: &PageRequest, lock: &LockName) -> String {
    // Go has escapes of code points, and none of surrogates.
    let (address, lock) = (literal(&request.address), go_literal(lock.as_str()));
    format!(
        "hf, err := holdfast.New(holdfast.Config{{Addresses: []string{{{address}}}}})\nif err != nil {{\n\treturn err\n}}\n\
         defer hf.Close()\nctx, guard, err := hf.Lock(ctx, {lock}, holdfast.Wait(30*time.Second))\nif err != nil {{\n\t\
         return err\n}}\ndefer guard.Release()\nfmt.Println(guard.Token()) // send it with every write"
    )
}

fn go_literal(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        ' ' | '!' | '#'..='[' | ']'..='~' => character.to_string(),
        other => format!("\\U{:08x}", u32::from(other)),
    });
    format!("\"{}\"", escaped.collect::<Vec<_>>().concat())
}

fn in_rust(request: &PageRequest, lock: &LockName) -> String {
    let lock: String = lock.as_str().escape_default().collect();
    format!(
        "let client = Client::new([\"{}\"])?;\nlet guard = client.lock(\"{lock}\").timeout(Duration::from_secs(30)).acquire().await?;\n\
         guard.ensure()?;\nprintln!(\"{{}}\", guard.token()); // send it with every write\nguard.release().await?;",
        request.address
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_for_its_language() {
        assert_eq!(shell_word("orders/eu"), "orders/eu");
        assert_eq!(shell_word("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(shell_word("-rf"), "'-rf'");
        assert_eq!(literal("a\"b\\\u{202e}😀"), r#""a\u0022b\u005c\u202e\ud83d\ude00""#);
        assert_eq!(go_literal("a\"😀"), r#""a\U00000022\U0001f600""#);
    }
}
