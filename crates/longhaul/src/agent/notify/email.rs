//! A mail with the text for whoever runs the path.

use super::{DEADLINE, Notice, secret};
use crate::watch::file::{Email, Security};
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::path::Path;

pub async fn tell(to: &Email, folder: &Path, notice: &Notice) -> Result<(), String> {
    let mut message = Message::builder()
        .from(mailbox(&to.from)?)
        .subject(notice.title());
    for address in &to.to {
        message = message.to(mailbox(address)?);
    }
    let message = message
        .body(notice.case.to_string())
        .map_err(|e| format!("no mail can be made of it: {e}"))?;
    let transport = transport(to, folder)?;
    transport
        .send(message)
        .await
        .map_err(|e| format!("{}:{}: {e}", to.host, to.port))?;
    Ok(())
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    address
        .parse()
        .map_err(|e| format!("{address} is no mail address: {e}"))
}

fn transport(to: &Email, folder: &Path) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    type Smtp = AsyncSmtpTransport<Tokio1Executor>;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wrong = |e: lettre::transport::smtp::Error| format!("{}: {e}", to.host);
    let mut builder = match to.security {
        Security::StartTls => Smtp::starttls_relay(&to.host).map_err(wrong)?,
        Security::Tls => Smtp::relay(&to.host).map_err(wrong)?,
        Security::None => Smtp::builder_dangerous(&to.host),
    };
    builder = builder.port(to.port).timeout(Some(DEADLINE));
    if let (Some(user), Some(file)) = (&to.user, &to.password_file) {
        let password = secret(folder, file)?;
        builder = builder.credentials(Credentials::new(user.clone(), password));
    }
    Ok(builder.build())
}
