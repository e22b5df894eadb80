//! The files of the page, as they were built from `web/`.

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use trunkline_crypto::sha256;

struct Asset {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 4] = [
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        bytes: include_bytes!("../../../console/index.html"),
    },
    Asset {
        path: "/console.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../console/console.js"),
    },
    Asset {
        path: "/console.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../../../console/console.css"),
    },
    Asset {
        path: "/icon.svg",
        kind: "image/svg+xml",
        bytes: include_bytes!("../../../console/icon.svg"),
    },
];

/// All that a page may take, in bytes.
#[cfg(test)]
const PAGE_LEN_MAX: usize = 300_000;

/// The answer for a path of the page, if it is one.
pub(super) fn asset(path: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    let hash = sha256(asset.bytes);
    let tag: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes);
    let mut response = match known == Some(tag.as_bytes()) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            ([(header::CONTENT_TYPE, asset.kind)], Bytes::from_static(asset.bytes)).into_response()
        }
    };
    // A page of another version is never mixed with this one.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let len: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(len < PAGE_LEN_MAX, "{len} bytes");
        let page = ASSETS.iter().find(|asset| asset.path == "/").expect("the page");
        let page = std::str::from_utf8(page.bytes).expect("text");
        assert!(!page.contains("http:") && !page.contains("https:"), "{page}");
        assert!(!page.contains("<style") && !page.contains(" style="), "nothing is inline");
        let scripts = page.matches("<script").count();
        assert_eq!((scripts, page.matches("<script src=\"/console.js\"").count()), (1, 1));
    }
}
