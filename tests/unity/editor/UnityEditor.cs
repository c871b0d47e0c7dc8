// What the project's scripts use of UnityEditor, written from Unity's documentation: no player brings that assembly.
// Everything here exists in Unity 2022.3 and in Unity 6.
using System;
using UnityEditor.Build.Reporting;
using UnityEngine;
using UnityEngine.SceneManagement;
using UnityEngine.UIElements;
using Object = UnityEngine.Object;

namespace UnityEditor
{
    public enum BuildTarget { StandaloneOSX = 2, StandaloneWindows64 = 19, StandaloneLinux64 = 24 }

    public enum BuildTargetGroup { Standalone = 1 }

    public enum StandaloneBuildSubtarget { Player = 0, Server = 1 }

    [Flags]
    public enum BuildOptions { None = 0 }

    [Flags]
    public enum ImportAssetOptions { Default = 0, ForceUpdate = 1 }

    public struct BuildPlayerOptions
    {
        public string[] scenes { get; set; }

        public string locationPathName { get; set; }

        public BuildTargetGroup targetGroup { get; set; }

        public BuildTarget target { get; set; }

        public int subtarget { get; set; }

        public BuildOptions options { get; set; }
    }

    public class BuildPipeline
    {
        public static BuildReport BuildPlayer(BuildPlayerOptions buildPlayerOptions) => default;

        public static bool IsBuildTargetSupported(BuildTargetGroup buildTargetGroup, BuildTarget target) => default;

        public static string GetPlaybackEngineDirectory(BuildTarget target, BuildOptions options) => default;
    }

    public sealed class EditorApplication
    {
        public delegate void CallbackFunction();

        public static CallbackFunction update;

        public static event Action quitting { add { } remove { } }

        public static bool isPlaying { get; set; }

        public static bool isPlayingOrWillChangePlaymode => default;

        public static bool isCompiling => default;

        public static double timeSinceStartup => default;

        public static void EnterPlaymode() { }

        public static void ExitPlaymode() { }

        public static void Exit(int returnValue) { }
    }

    public sealed class AssetDatabase
    {
        public static bool IsValidFolder(string path) => default;

        public static void Refresh() { }

        public static Object LoadMainAssetAtPath(string assetPath) => default;

        public static void ImportAsset(string path, ImportAssetOptions options) { }
    }

    public sealed class EditorUtility
    {
        public static string OpenFilePanel(string title, string directory, string extension) => default;

        public static void OpenWithDefaultApp(string fileName) { }

        public static bool DisplayDialog(string title, string message, string ok, string cancel) => default;
    }

    public class EditorBuildSettingsScene
    {
        public EditorBuildSettingsScene(string path, bool enabled) { }

        public string path { get; set; }

        public bool enabled { get; set; }
    }

    public sealed class EditorBuildSettings
    {
        public static EditorBuildSettingsScene[] scenes { get; set; }
    }

    public class EditorUserBuildSettings
    {
        public static BuildTarget activeBuildTarget => default;
    }

    public sealed class EditorUserSettings
    {
        public static string GetConfigValue(string name) => default;

        public static void SetConfigValue(string name, string value) { }
    }

    public class EditorWindow : ScriptableObject
    {
        public VisualElement rootVisualElement => default;

        public static T GetWindow<T>(string title)
            where T : EditorWindow => default;
    }

    public class SerializedObject : IDisposable
    {
        public SerializedObject(Object obj) { }

        public SerializedProperty FindProperty(string propertyPath) => default;

        public bool ApplyModifiedProperties() => default;

        public void Dispose() { }
    }

    public class SerializedProperty
    {
        public Object objectReferenceValue { get; set; }
    }

    public class Undo
    {
        public static void SetCurrentGroupName(string name) { }
    }

    public static class AssemblyReloadEvents
    {
        public delegate void AssemblyReloadCallback();

        public static event AssemblyReloadCallback beforeAssemblyReload { add { } remove { } }
    }

    [AttributeUsage(AttributeTargets.Class)]
    public class InitializeOnLoadAttribute : Attribute
    {
    }

    [AttributeUsage(AttributeTargets.Method, AllowMultiple = true)]
    public sealed class MenuItem : Attribute
    {
        public MenuItem(string itemName) { }

        public MenuItem(string itemName, bool isValidateFunction, int priority) { }
    }
}

namespace UnityEditor.Build.Reporting
{
    public enum BuildResult { Unknown, Succeeded, Failed, Cancelled }

    public sealed class BuildReport
    {
        public BuildSummary summary => default;

        public BuildStep[] steps => default;
    }

    public struct BuildSummary
    {
        public ulong totalSize => default;

        public TimeSpan totalTime => default;

        public BuildResult result => default;
    }

    public struct BuildStep
    {
        public BuildStepMessage[] messages => default;
    }

    public struct BuildStepMessage
    {
        public LogType type => default;

        public string content => default;
    }
}

namespace UnityEditor.SceneManagement
{
    public enum NewSceneSetup { EmptyScene, DefaultGameObjects }

    public enum NewSceneMode { Single, Additive }

    public sealed class EditorSceneManager
    {
        public static Scene NewScene(NewSceneSetup setup, NewSceneMode mode) => default;

        public static bool SaveScene(Scene scene, string path) => default;

        public static bool SaveCurrentModifiedScenesIfUserWantsTo() => default;
    }
}
