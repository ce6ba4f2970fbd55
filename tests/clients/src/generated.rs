//! The files of the client libraries that have the error codes and the query parameters of the HTTP API. They are written from
//! `/openapi.json`; a test compares them.

use std::fmt::Write as _;

use crate::api_description::ApiDescription;

const WRITTEN: &str =
    "Written from /openapi.json: run the tests of tests/clients with HOLDFAST_REWRITE=1.";
const CODES: &str = "The error codes of a cluster. `holdfast explain CODE` explains a code.";
const PARAMETERS: &str = "The query parameters of the calls.";

/// Each file, from the folder `crates`, and its content.
pub fn files(api: &ApiDescription) -> Vec<(&'static str, String)> {
    let codes = &api.codes;
    let parameters: Vec<String> = api.parameters.iter().cloned().collect();
    vec![
        ("client-python/holdfast/codes.py", python_constants(codes)),
        ("client-python/holdfast/_parameters.py", python_literal(&parameters)),
        ("client-typescript/src/codes.ts", typescript_union("ErrorCode", CODES, codes)),
        (
            "client-typescript/src/parameters.ts",
            typescript_union("Parameter", PARAMETERS, &parameters),
        ),
        ("client-go/codes.go", go_constants(("Code", CODES), codes)),
        ("client-go/parameters.go", go_constants(("param", PARAMETERS), &parameters)),
        ("client-java/client/src/main/java/io/holdfast/Codes.java", java_constants(codes)),
        ("client-java/client/src/main/java/io/holdfast/Parameter.java", java_enum(&parameters)),
    ]
}

fn capitals(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

/// `LockBusy` of `lock-busy`.
fn pascal(name: &str) -> String {
    let parts = name.split(['-', '_']).map(|part| match part.split_at_checked(1) {
        Some((first, rest)) => first.to_uppercase() + rest,
        None => String::new(),
    });
    parts.collect()
}

fn lines(names: &[String], line: impl Fn(&str) -> String) -> String {
    names.iter().fold(String::new(), |mut text, name| {
        writeln!(text, "{}", line(name)).expect("a text");
        text
    })
}

fn python_constants(codes: &[String]) -> String {
    let constants = lines(codes, |code| format!("{} = \"{code}\"", capitals(code)));
    format!("\"\"\"{CODES}\"\"\"\n# {WRITTEN}\n\n{constants}")
}

fn python_literal(names: &[String]) -> String {
    let literals = lines(names, |name| format!("    \"{name}\","));
    format!(
        "\"\"\"{PARAMETERS}\"\"\"\n# {WRITTEN}\n\nfrom typing import Literal\n\nParameter = Literal[\n{literals}]\n"
    )
}

fn typescript_union(name: &str, about: &str, names: &[String]) -> String {
    let members = lines(names, |name| format!("  | \"{name}\""));
    format!("// {WRITTEN}\n\n/** {about} */\nexport type {name} =\n{};\n", members.trim_end())
}

/// As `gofmt` writes constants: the values are aligned.
fn go_constants((prefix, about): (&str, &str), names: &[String]) -> String {
    let width = names.iter().map(|name| pascal(name).len()).max().unwrap_or_default();
    let constant = |name: &str| format!("\t{prefix}{:width$} = \"{name}\"", pascal(name));
    let constants = lines(names, constant);
    format!("package holdfast\n\n// {WRITTEN}\n\n// {about}\nconst (\n{constants})\n")
}

fn java_constants(codes: &[String]) -> String {
    let constants = lines(codes, |code| {
        format!("    public static final String {} = \"{code}\";", capitals(code))
    });
    let about = CODES.replace("`holdfast explain CODE`", "{@code holdfast explain CODE}");
    format!(
        "// {WRITTEN}\npackage io.holdfast;\n\n/** {about} */\npublic final class Codes {{\n{constants}\n    private Codes() {{}}\n}}\n"
    )
}

fn java_enum(names: &[String]) -> String {
    let constants = lines(names, |name| format!("    {}(\"{name}\"),", capitals(name)));
    let constants = constants.trim_end().trim_end_matches(',');
    format!(
        "// {WRITTEN}\npackage io.holdfast;\n\n/** {PARAMETERS} */\nenum Parameter {{\n{constants};\n\n    final String word;\n\n\
         \x20   Parameter(String word) {{\n        this.word = word;\n    }}\n}}\n"
    )
}
