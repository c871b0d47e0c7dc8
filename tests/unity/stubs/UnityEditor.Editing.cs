// Stand-ins for UnityEditor: menus, dialogs, assets and scenes.
using System;
using UnityEngine;
using UnityEngine.SceneManagement;
using Object = UnityEngine.Object;

namespace UnityEditor
{
    [AttributeUsage(AttributeTargets.Method, AllowMultiple = true)]
    public sealed class MenuItem : Attribute
    {
        public string menuItem;
        public bool validate;
        public int priority;

        public MenuItem(string itemName) { }

        public MenuItem(string itemName, bool isValidateFunction) { }

        public MenuItem(string itemName, bool isValidateFunction, int priority) { }
    }

    [AttributeUsage(AttributeTargets.Class)]
    public class InitializeOnLoadAttribute : Attribute
    {
        public InitializeOnLoadAttribute() { }
    }

    [AttributeUsage(AttributeTargets.Method)]
    public class InitializeOnLoadMethodAttribute : Attribute
    {
        public InitializeOnLoadMethodAttribute() { }
    }

    public enum PlayModeStateChange
    {
        EnteredEditMode,
        ExitingEditMode,
        EnteredPlayMode,
        ExitingPlayMode,
    }

    public class EditorApplication
    {
        public delegate void CallbackFunction();

        public static CallbackFunction update;
        public static CallbackFunction delayCall;

        public static event Action<PlayModeStateChange> playModeStateChanged
        {
            add { }
            remove { }
        }

        public static event Action quitting
        {
            add { }
            remove { }
        }

        public static string applicationPath => default;

        public static string applicationContentsPath => default;

        public static bool isCompiling => default;

        public static bool isPaused { get; set; }

        public static bool isPlaying { get; set; }

        public static bool isPlayingOrWillChangePlaymode => default;

        public static void EnterPlaymode() { }

        public static bool ExecuteMenuItem(string menuItemPath) => default;

        public static void Exit(int returnValue) { }

        public static void ExitPlaymode() { }
    }

    public class EditorUtility
    {
        public static void ClearProgressBar() { }

        public static bool DisplayDialog(string title, string message, string ok) => default;

        public static bool DisplayDialog(string title, string message, string ok, string cancel) => default;

        public static void DisplayProgressBar(string title, string info, float progress) { }

        public static string OpenFilePanel(string title, string directory, string extension) => default;

        public static string OpenFolderPanel(string title, string folder, string defaultName) => default;

        public static void RevealInFinder(string path) { }

        public static string SaveFilePanel(
            string title, string directory, string defaultName, string extension) => default;

        public static void SetDirty(Object target) { }
    }

    [Flags]
    public enum ImportAssetOptions
    {
        Default = 0,
        ForceUpdate = 1,
        ForceSynchronousImport = 8,
        ImportRecursive = 256,
        DontDownloadFromCacheServer = 8192,
        ForceUncompressedImport = 16384,
    }

    public class AssetDatabase
    {
        public static bool Contains(Object obj) => default;

        public static bool CopyAsset(string path, string newPath) => default;

        public static void CreateAsset(Object asset, string path) { }

        public static string CreateFolder(string parentFolder, string newFolderName) => default;

        public static bool DeleteAsset(string path) => default;

        public static string[] FindAssets(string filter) => default;

        public static string[] FindAssets(string filter, string[] searchInFolders) => default;

        public static string GetAssetPath(Object assetObject) => default;

        public static string GUIDToAssetPath(string guid) => default;

        public static void ImportAsset(string path) { }

        public static void ImportAsset(string path, ImportAssetOptions options) { }

        public static bool IsValidFolder(string path) => default;

        public static Object LoadAssetAtPath(string assetPath, Type type) => default;

        public static T LoadAssetAtPath<T>(string assetPath)
            where T : Object => default;

        public static void Refresh() { }

        public static void Refresh(ImportAssetOptions options) { }

        public static void SaveAssets() { }
    }

    public sealed class Selection
    {
        public static GameObject activeGameObject { get; set; }

        public static Object activeObject { get; set; }
    }

    public class Undo
    {
        public static void RegisterCreatedObjectUndo(Object objectToUndo, string name) { }
    }

    public class Editor : ScriptableObject
    {
        public Object target { get; set; }

        public virtual void OnInspectorGUI() { }
    }
}

namespace UnityEditor.SceneManagement
{
    public enum NewSceneSetup
    {
        EmptyScene,
        DefaultGameObjects,
    }

    public enum NewSceneMode
    {
        Single,
        Additive,
    }

    public enum OpenSceneMode
    {
        Single,
        Additive,
        AdditiveWithoutLoading,
    }

    public sealed class EditorSceneManager : SceneManager
    {
        public static bool MarkSceneDirty(Scene scene) => default;

        public static Scene NewScene(NewSceneSetup setup) => default;

        public static Scene NewScene(NewSceneSetup setup, NewSceneMode mode) => default;

        public static Scene OpenScene(string scenePath) => default;

        public static Scene OpenScene(string scenePath, OpenSceneMode mode) => default;

        public static bool SaveCurrentModifiedScenesIfUserWantsTo() => default;

        public static bool SaveOpenScenes() => default;

        public static bool SaveScene(Scene scene) => default;

        public static bool SaveScene(Scene scene, string dstScenePath) => default;

        public static bool SaveScene(Scene scene, string dstScenePath, bool saveAsCopy) => default;
    }
}
