//! `.rawko` is a folder of the project, and not a link: rawko writes into it. Its folders of sessions and memories refuse
//! to be links by themselves.

use std::path::Path;

use crate::error::Error;

/// Refuses a project whose `.rawko` is a link. A repository can bring one along, which has rawko write wherever it leads,
/// and gives protected files another name.
///
/// # Errors
/// [`Error::Setup`] that names the link.
pub fn check_project_folder(project: &Path) -> Result<(), Error> {
    let folder = project.join(".rawko");
    if !folder.is_symlink() {
        return Ok(());
    }
    Err(Error::Setup {
        message: format!("{} is a link, and rawko does not write through one", folder.display()),
        hint: "remove the link; if what it leads to is yours, move it to the link's place".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// `links`: name and target, in a project that has a folder `inside`.
    #[track_caller]
    fn check(links: &[(&str, &str)], refused: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir_all(project.join("inside")).unwrap();
        for (name, target) in links {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        }
        let found = check_project_folder(&project).map_err(|error| error.to_string());
        let shown = refused.map(|name| project.join(name).display().to_string());
        match shown {
            None => assert_eq!(found, Ok(())),
            Some(shown) => assert!(found.unwrap_err().starts_with(&format!("{shown} is a link"))),
        }
    }

    #[test]
    fn a_link_is_refused_wherever_it_leads() {
        check(&[], None);
        check(&[(".rawko/agents", "../inside")], None);
        check(&[(".rawko", "inside")], Some(".rawko"));
        check(&[(".rawko", "/tmp")], Some(".rawko"));
        check(&[(".rawko", "nowhere")], Some(".rawko"));
    }
}
