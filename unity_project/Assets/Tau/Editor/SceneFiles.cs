using System.Collections.Generic;
using System.IO;
using Tau.Core;
using UnityEditor;
using UnityEditor.SceneManagement;
using UnityEngine.SceneManagement;

namespace Tau.Editor
{
    /// <summary>The project's scenes as files: each is made in code, saved, and listed for builds.</summary>
    public static class SceneFiles
    {
        /// <summary>The folder of the scene files, inside the project.</summary>
        public const string Folder = "Assets/Tau/Scenes";

        /// <summary>All scenes in the order of a build; a build starts with the first one.</summary>
        public static readonly IReadOnlyList<SceneKind> All = new[]
        {
            SceneKind.Tau,
            SceneKind.Balance,
            SceneKind.Inference,
        };

        /// <summary>Path of a scene's file, inside the project.</summary>
        public static string PathOf(SceneKind kind)
        {
            return Folder + "/" + TauSceneBuilder.NameOf(kind) + ".unity";
        }

        /// <summary>
        /// Makes a scene in code, replacing the open one, and saves it; overwrites an existing file.
        /// </summary>
        /// <returns>The path of its file, inside the project.</returns>
        /// <exception cref="TauException">Unity could not write the file.</exception>
        public static string Create(SceneKind kind)
        {
            string path = PathOf(kind);
            if (!AssetDatabase.IsValidFolder(Folder))
            {
                Directory.CreateDirectory(Folder);
                AssetDatabase.Refresh();
            }
            Scene scene = EditorSceneManager.NewScene(NewSceneSetup.EmptyScene, NewSceneMode.Single);
            TauSceneBuilder.Build(kind);
            if (!EditorSceneManager.SaveScene(scene, path))
            {
                throw new TauException(
                    "The scene " + path
                    + " cannot be written: check that the folder can be written to and the disk has room.");
            }
            return path;
        }

        /// <summary>
        /// The paths of all scenes for a build. Existing files are used unchanged, so that manual changes are kept;
        /// missing files are made.
        /// </summary>
        /// <param name="made">The paths of the new files.</param>
        /// <exception cref="TauException">Unity could not write a file.</exception>
        public static string[] Ensure(out IReadOnlyList<string> made)
        {
            var paths = new string[All.Count];
            var fresh = new List<string>();
            for (int i = 0; i < paths.Length; i++)
            {
                paths[i] = PathOf(All[i]);
                if (!File.Exists(paths[i]))
                {
                    fresh.Add(Create(All[i]));
                }
            }
            made = fresh;
            return paths;
        }

        /// <summary>Adds a scene to the list in the build settings, if it is not there.</summary>
        public static void AddToBuildSettings(string path)
        {
            var scenes = new List<EditorBuildSettingsScene>(EditorBuildSettings.scenes);
            foreach (EditorBuildSettingsScene scene in scenes)
            {
                if (scene.path == path)
                {
                    return;
                }
            }
            scenes.Add(new EditorBuildSettingsScene(path, true));
            EditorBuildSettings.scenes = scenes.ToArray();
        }
    }
}
